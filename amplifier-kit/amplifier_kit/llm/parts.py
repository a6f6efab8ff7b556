"""The parts that a message is made of, in one form for every service to be written from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Call", "Conversation", "Image", "Part", "Redacted", "Result", "Text", "Thinking", "Turn"]

Role = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str
    #: What else the service needs back with this text, under keys with its own prefix.
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Image:
    """An image: base64 `data` with its `media_type`, or a `url`."""

    media_type: str = "image/png"
    data: str | None = None
    url: str | None = None

    @property
    def data_url(self) -> str:
        """Return the image as one URL, as OpenAI's family takes it."""
        return self.url or f"data:{self.media_type};base64,{self.data or ''}"


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning of a model; `origin` is the wire it came over, which alone can read its `signature` and `content`."""

    text: str
    signature: str | None = None
    origin: str | None = None
    content: Any = None


@dataclass(frozen=True, slots=True)
class Redacted:
    """Reasoning that a service encrypted."""

    data: str
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    id: str
    name: str
    arguments: dict[str, Any]
    #: What else the service needs back with this call, under keys with its own prefix.
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a tool call."""

    call_id: str
    name: str
    parts: tuple[Text | Image, ...]

    @property
    def text(self) -> str:
        """Return the text of the result."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def images(self) -> tuple[Image, ...]:
        """Return the images of the result."""
        return tuple(part for part in self.parts if isinstance(part, Image))


Part = Text | Image | Thinking | Redacted | Call | Result


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: who speaks, the parts in order, and what its metadata says."""

    role: Role
    parts: tuple[Part, ...]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return the text of the message."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def of_origin(self, wire: str) -> Turn:
        """Return the message without reasoning that `wire` cannot take back: another's, and what has no signature."""
        kept = tuple(part for part in self.parts if not isinstance(part, Thinking | Redacted) or _fits(part, wire))
        return self if len(kept) == len(self.parts) else Turn(self.role, kept, self.metadata)


def _fits(part: Thinking | Redacted, wire: str) -> bool:
    # A transcript of other programs does not tell the origin: what is signed is taken for our own, as they do.
    signed = isinstance(part, Redacted) or part.signature is not None or part.content is not None
    return part.origin == wire or (part.origin is None and signed)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request's messages: the instructions in front, then the turns; `repairs` says what pairing had to be mended."""

    system: tuple[str, ...]
    turns: tuple[Turn, ...]
    repairs: tuple[Any, ...] = ()
