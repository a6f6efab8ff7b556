"""What a model says, before it is put into any service's words; and what a service's words are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from amplifier_testing.llm.reply import Reply

__all__ = ["Said", "WireServer"]


@dataclass(frozen=True)
class Said:
    """One answer of a model: thinking, text in pieces, tool calls, and what it took."""

    text: tuple[str, ...] = ("Hello", " world")
    thinking: tuple[str, ...] = ()
    #: Base64, since some services insist on it.
    signature: str = "c2lnbmF0dXJl"
    #: Calls as id, name and arguments.
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    #: The whole prompt, with what was read from and written to a cache.
    prompt_tokens: int = 100
    output_tokens: int = 20
    cache_read: int = 0
    cache_write: int = 0
    #: stop, tool_use, length or content_filter; the service's own word for it is used.
    finish: str = ""
    model: str = ""
    #: Headers of the response, with underscores for hyphens.
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def total_tokens(self) -> int:
        """Return what it took in all, as far as that can be counted: a test may have the service count in nonsense."""
        return sum(count for count in (self.prompt_tokens, self.output_tokens) if isinstance(count, int))

    @property
    def reason(self) -> str:
        """Return why the answer ended."""
        return self.finish or ("tool_use" if self.calls else "stop")


class WireServer(Protocol):
    """Speak one service's protocol: put what a model says, and what a service refuses, into its words."""

    #: What the paths of model calls begin with.
    path: str
    #: How many pieces of `reply(Said())` it takes until the first piece of text has been sent.
    first_text: int

    def reply(self, said: Said) -> Reply:
        """Return a whole streamed answer, one event per piece."""

    def refusal(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        """Return the service's own form of an error; `kind` is its word for it."""

    def error_event(self, kind: str, message: str) -> bytes:
        """Return an error in the middle of a stream."""

    def ping(self) -> bytes:
        """Return what keeps a connection alive and says nothing."""

    def garbage(self) -> bytes:
        """Return an event whose JSON is broken."""

    def models(self, *names: str) -> Reply:
        """Return a list of models."""
