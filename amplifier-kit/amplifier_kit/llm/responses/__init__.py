"""The Responses API, the protocol of OpenAI, Azure and some self-hosted servers.

`ResponsesProvider` is the base class: a subclass creates the client.
"""

from amplifier_kit.llm.responses.config import ResponsesConfig
from amplifier_kit.llm.responses.models import EFFORTS, Abilities, abilities_of, describe
from amplifier_kit.llm.responses.provider import RESPONSES_EVENTS, ResponsesProvider

__all__ = [
    "EFFORTS",
    "RESPONSES_EVENTS",
    "Abilities",
    "ResponsesConfig",
    "ResponsesProvider",
    "abilities_of",
    "describe",
]
