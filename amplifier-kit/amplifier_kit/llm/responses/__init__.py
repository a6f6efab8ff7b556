"""What providers share that speak the Responses API: OpenAI's, Azure's, and servers of one's own.

`ResponsesProvider` is the frame: a subclass makes the client and says which models there are.
"""

from amplifier_kit.llm.responses.abilities import EFFORTS, Abilities, abilities_of, describe
from amplifier_kit.llm.responses.provider import RESPONSES, RESPONSES_EVENTS, ResponsesProvider
from amplifier_kit.llm.responses.settings import ResponsesSettings

__all__ = [
    "EFFORTS",
    "RESPONSES",
    "RESPONSES_EVENTS",
    "Abilities",
    "ResponsesProvider",
    "ResponsesSettings",
    "abilities_of",
    "describe",
]
