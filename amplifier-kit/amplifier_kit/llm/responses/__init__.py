"""What providers share that speak the Responses API: OpenAI's, Azure's, and servers of one's own.

`ResponsesProvider` is the frame: a subclass makes the client and says which models there are.
"""

from amplifier_kit.llm.responses.config import ResponsesConfig
from amplifier_kit.llm.responses.models import EFFORTS, Abilities, abilities_of, describe
from amplifier_kit.llm.responses.provider import RESPONSES, RESPONSES_EVENTS, ResponsesProvider

__all__ = [
    "EFFORTS",
    "RESPONSES",
    "RESPONSES_EVENTS",
    "Abilities",
    "ResponsesConfig",
    "ResponsesProvider",
    "abilities_of",
    "describe",
]
