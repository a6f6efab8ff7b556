"""The base of providers of model services: with it, a provider is a small module.

Start with `provider.py`: `LLMProvider.complete` reads a request (`request.py`), makes attempts (`retry.py`, within
`limits.py`), collects the answer (`response.py`) and turns failures into errors (`errors.py`, where a new kind of error
goes). `chat` and `responses` are the two protocols that several services share. `amplifier_testing.llm` has servers
that speak the services' protocols, and the conformance tests of providers.
"""
