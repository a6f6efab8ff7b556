"""A request in one form, from which providers build the payloads of all services: turns of parts, with paired calls.

Only leading instructions become the system prompt. A later one stays where it is: moved to the front, it would change
the beginning of every request, which services cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from amplifier_core.message_models import ChatRequest, Message, ToolSpec
from amplifier_kit.engine.pairing import check_pairing, repair_pairing
from amplifier_kit.llm.structured_output import Shape
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.reminders import is_reminder, reminder

# -- turns and parts --


Role = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    #: Facts to send back with this text, under keys with the service's prefix.
    extra: dict[str, Any] = field(default_factory=dict)


class Image(NamedTuple):
    """An image: base64 `data` with its `media_type`, or a `url`."""

    media_type: str = "image/png"
    data: str | None = None
    url: str | None = None

    @property
    def data_url(self) -> str:
        """The image as one URL, as OpenAI's protocols accept it."""
        return self.url or f"data:{self.media_type};base64,{self.data or ''}"


class Thinking(NamedTuple):
    """Reasoning of a model; only the wire of its `origin` can read its `signature` and `content`."""

    text: str
    signature: str | None = None
    origin: str | None = None
    content: Any = None


class Redacted(NamedTuple):
    """Reasoning that a service encrypted."""

    data: str
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    name: str
    arguments: dict[str, Any]
    #: Facts to send back with this call, under keys with the service's prefix.
    extra: dict[str, Any] = field(default_factory=dict)


class Result(NamedTuple):
    call_id: str
    name: str
    parts: tuple[Text | Image, ...]

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(part for part in self.parts if isinstance(part, Image))


Part = Text | Image | Thinking | Redacted | Call | Result


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: its role, its parts in order, and its metadata."""

    role: Role
    parts: tuple[Part, ...]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def of_origin(self, wire: str) -> Turn:
        """Return the message without reasoning that `wire` cannot read: of another origin, or without signature."""
        kept = tuple(part for part in self.parts if not isinstance(part, Thinking | Redacted) or _fits(part, wire))
        return self if len(kept) == len(self.parts) else Turn(self.role, kept, self.metadata)


def _fits(part: Thinking | Redacted, wire: str) -> bool:
    # Transcripts of other programs have no origin: signed reasoning counts as readable, as it does there.
    signed = isinstance(part, Redacted) or part.signature is not None or part.content is not None
    return part.origin == wire or (part.origin is None and signed)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request: leading instructions, then turns; `repairs` lists the repaired tool calls."""

    system: tuple[str, ...]
    turns: tuple[Turn, ...]
    repairs: tuple[Any, ...] = ()


# -- reading messages --


_SAFE_ID: Final = re.compile("[A-Za-z0-9_-]+")
_UNSAFE: Final = re.compile("[^A-Za-z0-9_-]")
_LONGEST_ID: Final = 64


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return the conversation of a request; tool calls without a result and the like are repaired first."""
    repairs: tuple[Any, ...] = ()
    if check_pairing([_outline(message) for message in messages]):
        sound = repair_pairing([message.model_dump(exclude_none=True) for message in messages])
        messages, repairs = [Message(**message) for message in sound.messages], tuple(sound.repairs)
    names: dict[str, str] = {}
    system: list[str] = []
    turns: list[Turn] = []
    for message in messages:
        turn = _turn(message, names)
        names.update((part.id, part.name) for part in turn.parts if isinstance(part, Call))
        if turn.role == "system" and not turns:
            if turn.text:
                system.append(turn.text)
        elif turn.parts:
            turns.append(turn)
    return Conversation(tuple(system), tuple(turns), repairs)


def instruction_text(turn: Turn) -> str:
    """Return a system or developer turn as text for a user message, for services without a role for it."""
    text = turn.text
    if not text.strip():
        return ""
    if turn.role == "developer":
        return f"<context_file>\n{text}\n</context_file>"
    return text if is_reminder(text) else reminder(text)


def safe_id(call_id: str) -> str:
    """Return an id that every service accepts: letters, digits, `_` and `-`; such an id is returned unchanged.

    Histories move from service to service, and some create ids that others refuse. The same id gives the same result.
    """
    if len(call_id) <= _LONGEST_ID and _SAFE_ID.fullmatch(call_id):
        return call_id
    from hashlib import sha256

    mark = sha256(call_id.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{_UNSAFE.sub('_', call_id)[: _LONGEST_ID - 9]}_{mark}"


def _outline(message: Message) -> dict[str, Any]:
    """Return the fields that pairing needs, without copying the others."""
    outline: dict[str, Any] = {"role": message.role}
    if message.role == "tool":
        outline["tool_call_id"] = message.tool_call_id
        outline["name"] = message.name
    elif message.role == "assistant":
        outline["tool_calls"] = (message.model_extra or {}).get("tool_calls")
        if isinstance(message.content, list):
            blocks = [block for block in message.content if block.type == "tool_call"]
            outline["content"] = [{"type": "tool_call", "id": block.id, "name": block.name} for block in blocks]
    return outline


def _turn(message: Message, names: Mapping[str, str]) -> Turn:
    metadata = message.metadata or {}
    if message.role in ("tool", "function"):
        return Turn("tool", (_result(message, names),), metadata)
    parts = _parts(message, names)
    role: Role = message.role  # type: ignore[assignment]  # `function` is a tool's
    if role != "assistant":
        # Only assistants think and call tools; services know no call for a result outside a tool's message.
        shown = [part for part in parts if isinstance(part, Text | Image)]
        shown += [inner for part in parts if isinstance(part, Result) for inner in part.parts]
        return Turn(role, tuple(shown), metadata)
    known = {part.id for part in parts if isinstance(part, Call)}
    parts += [call for call in _listed(message) if call.id not in known]
    return Turn(role, tuple(parts), metadata)


def _result(message: Message, names: Mapping[str, str]) -> Result:
    call_id = message.tool_call_id or ""
    shown: list[Text | Image] = []
    for part in _parts(message, names):
        if isinstance(part, Result):
            call_id = call_id or part.call_id
            shown += part.parts
        elif isinstance(part, Text | Image):
            shown.append(part)
    return Result(call_id, message.name or names.get(call_id, ""), tuple(shown))


def _parts(message: Message, names: Mapping[str, str]) -> list[Part]:
    if isinstance(message.content, str):
        return [Text(message.content)] if message.content else []
    parts = [_part(block, names) for block in message.content]
    return [part for part in parts if part is not None]


def _part(block: Any, names: Mapping[str, str]) -> Part | None:
    extra = block.model_extra or {}
    origin = extra.get("origin")
    match block.type:
        case "text":
            return Text(block.text, _of_services(extra, origin)) if block.text else None
        case "image":
            return _image(block.source)
        case "thinking":
            return Thinking(block.thinking, block.signature, origin, block.content)
        case "redacted_thinking":
            return Redacted(block.data, origin)
        case "reasoning":
            return Thinking(_said(block.summary), None, origin, block.content)
        case "tool_call":
            return Call(block.id, block.name, block.input, _of_services(extra, origin))
        case "tool_result":
            result = _output(block.output)
            return Result(block.tool_call_id, names.get(block.tool_call_id, ""), tuple(result))
    return None


def _of_services(extra: Mapping[str, Any], origin: Any) -> dict[str, Any]:
    """Return the facts that services keep on a block, under keys such as `gemini:thought_signature`.

    On a block with an origin, only keys of that origin count.
    """
    return {
        key: value for key, value in extra.items() if ":" in key and (origin is None or key.startswith(f"{origin}:"))
    }


def _said(summary: list[Any]) -> str:
    texts = [item.get("text", "") if isinstance(item, Mapping) else str(item) for item in summary]
    return "\n".join(text for text in texts if text)


def _image(source: Mapping[str, Any]) -> Image | None:
    url: Any = source.get("url")
    if isinstance(url, Mapping):
        url = url.get("url")
    if isinstance(url, str) and url.startswith("data:"):
        head, _, encoded = url[5:].partition(",")
        return Image(head.partition(";")[0] or "image/png", encoded)
    if isinstance(url, str) and url:
        return Image(url=url)
    data = source.get("data")
    return Image(str(source.get("media_type") or "image/png"), data) if isinstance(data, str) and data else None


def _output(output: Any) -> list[Text | Image]:
    if isinstance(output, str):
        return [Text(output)] if output else []
    if isinstance(output, list) and output and all(isinstance(item, Mapping) and "type" in item for item in output):
        found: list[Text | Image] = []
        for item in output:
            if item["type"] == "text" and item.get("text"):
                found.append(Text(str(item["text"])))
            elif item["type"] == "image" and (image := _image(item.get("source") or {})):
                found.append(image)
        return found
    return [Text(json.dumps(output, default=str, ensure_ascii=False))] if output is not None else []


def _listed(message: Message) -> list[Call]:
    listed = (message.model_extra or {}).get("tool_calls")
    calls: list[Call] = []
    for entry in listed if isinstance(listed, list | tuple) else ():
        if not isinstance(entry, Mapping):
            continue
        function = entry.get("function")
        inner: Mapping[str, Any] = function if isinstance(function, Mapping) else entry
        name = str(entry.get("tool") or inner.get("name") or "")
        arguments = inner.get("arguments", inner.get("input"))
        calls.append(Call(str(entry.get("id") or ""), name, _arguments(arguments)))
    return calls


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return dict(given) if isinstance(given, Mapping) else {}


# -- tools --


_CHOICE_MODES: Final[dict[str, Literal["auto", "none", "required"]]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
}


class ToolChoice(NamedTuple):
    """Whether tools may or must be called; `tool` means the one named `name`."""

    mode: Literal["auto", "none", "required", "tool"]
    name: str = ""


def read_tool_choice(request: ChatRequest) -> ToolChoice | None:
    """Return the tool choice of a request; None when it has none, or a mapping that only its service understands."""
    choice = request.tool_choice
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
        mode = _CHOICE_MODES.get(str(choice.get("type")))
    else:
        mode = _CHOICE_MODES.get(choice or "")
        name = None if mode else choice
    if name:
        return ToolChoice("tool", str(name))
    return ToolChoice(mode) if mode else None


def function_parameters(tool: ToolSpec) -> dict[str, Any]:
    """Return the schema of a function's parameters, complete enough for every service."""
    return {"type": "object", "properties": {}, **tool.parameters}


def function_tool(tool: ToolSpec) -> dict[str, Any]:
    """Return a function in the form of chat completions."""
    function = {"name": tool.name, "description": tool.description or "", "parameters": function_parameters(tool)}
    return {"type": "function", "function": function}


def native_spec(tool: ToolSpec) -> dict[str, Any] | None:
    """Return the service's form of one of its native tools, None for a function.

    `native_tool_spec` of a tool adds `type` and more fields to the spec; only these are passed on.
    """
    extra = tool.model_extra or {}
    kind = extra.get("type")
    if not isinstance(kind, str) or kind in ("function", "custom"):
        return None
    return {**extra, "name": tool.name} if "name" in tool.model_fields_set else dict(extra)


# -- one call --


@dataclass(frozen=True)
class LLMCall:
    """One call of a model, as a provider has to send it."""

    #: The request, with the additions for an output schema; its messages are in `conversation`.
    request: ChatRequest
    conversation: Conversation
    model: str
    #: Whether to emit stream events while the answer arrives.
    streams: bool
    shape: Shape | None = None
    #: Further arguments of `complete()`, as `extended_thinking`.
    options: dict[str, Any] = field(default_factory=dict)
    #: For the service's metadata; None unless `send_session_id` is on.
    session_id: str | None = None
