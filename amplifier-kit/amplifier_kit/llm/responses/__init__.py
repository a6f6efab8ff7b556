"""The Responses API, the protocol of OpenAI, Azure and some self-hosted servers.

`ResponsesProvider` is the base class: a subclass creates the client.
"""
