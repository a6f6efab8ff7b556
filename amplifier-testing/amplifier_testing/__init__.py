"""Fakes, model servers on loopback and conformance suites for tests of Amplifier modules.

`amplifier_testing.llm` has servers that speak the protocols of model services and the suites that every provider
inherits; `amplifier_testing.loop` has a scripted session and the suite that every loop inherits. The product never
imports this package.
"""

__version__ = "3.0.0"
