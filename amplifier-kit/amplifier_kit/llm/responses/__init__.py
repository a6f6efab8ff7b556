"""The Responses API, the protocol of OpenAI, Azure and some self-hosted servers.

`ResponsesProvider` is the base class: a subclass creates the client.
"""

from amplifier_kit.llm.responses.models import Abilities, abilities_of, describe
from amplifier_kit.llm.responses.provider import RESPONSES_EVENTS, ResponsesProvider
from amplifier_kit.llm.responses.request import ResponsesConfig

__all__ = [
    "RESPONSES_EVENTS",
    "Abilities",
    "ResponsesConfig",
    "ResponsesProvider",
    "abilities_of",
    "describe",
]
