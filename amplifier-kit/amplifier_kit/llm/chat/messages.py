"""Write a conversation as chat messages, the same way every time.

Many servers put the messages through a template that knows little: one system message in front, then user and assistant
in turns. So that is what they get. How a message is written depends on nothing that is said later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from amplifier_kit.llm.conversation import as_reminder, safe_id
from amplifier_kit.llm.parts import Call, Conversation, Image, Result, Text, Thinking, Turn

__all__ = ["ORIGIN", "REASONING_FIELD", "REASONING_FIELDS", "messages_of"]

#: The wire that thinking came over, unless a provider has a name of its own: another's cannot be read here.
ORIGIN: Final = "chat-completions"
#: Where a message keeps the field that its thinking came in, to be sent back in the same.
REASONING_FIELD: Final = "chat:reasoning_field"
#: What servers call the field; the first is sent when nothing else is known.
REASONING_FIELDS: Final = ("reasoning_content", "reasoning")

_EMPTY: Final = "(empty)"

Message = dict[str, Any]


def messages_of(conversation: Conversation, *, origin: str = ORIGIN, with_reasoning: bool = True) -> list[Message]:
    """Return the messages; `with_reasoning` sends thinking of that origin back with them."""
    written = _Messages()
    if conversation.system:
        written.system("\n\n".join(conversation.system))
    for turn in conversation.turns:
        if turn.role == "tool":
            written.results(part for part in turn.parts if isinstance(part, Result))
        elif turn.role == "assistant":
            written.assistant(_assistant(turn.of_origin(origin), with_reasoning))
        else:
            written.user(_shown(turn))
    return written.done()


class _Messages:
    """Put messages into the order that templates take."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        #: Images of results, which tool messages cannot hold: the user shows them behind the last result.
        self._images: list[Text | Image] = []

    def system(self, text: str) -> None:
        self._messages.append({"role": "system", "content": text})

    def results(self, results: Iterable[Result]) -> None:
        for result in results:
            text = result.text or _EMPTY
            self._messages.append({"role": "tool", "tool_call_id": safe_id(result.call_id), "content": text})
            if result.images:
                self._images += [Text(f"What {result.name or 'the tool'} showed:"), *result.images]

    def assistant(self, message: Message | None) -> None:
        self._show_images()
        if message is None:
            return
        if not self._messages or self._messages[-1]["role"] == "system":
            self.user([Text(_EMPTY)])
        self._messages.append(message)

    def user(self, parts: list[Text | Image]) -> None:
        """Add to what the user says; messages in a row become one."""
        self._show_images()
        if not parts:
            return
        if self._messages and self._messages[-1]["role"] == "user":
            self._messages[-1]["content"] += parts
        else:
            self._messages.append({"role": "user", "content": list(parts)})

    def done(self) -> list[Message]:
        self._show_images()
        for message in self._messages:
            if message["role"] == "user":
                message["content"] = _content(message["content"])
        return self._messages

    def _show_images(self) -> None:
        images, self._images = self._images, []
        if images:
            self.user(images)


def _content(parts: list[Text | Image]) -> Any:
    """Return plain text where there is nothing else: not every template takes parts."""
    if all(isinstance(part, Text) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, Text))
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.data_url}}
        for part in parts
    ]


def _shown(turn: Turn) -> list[Text | Image]:
    parts = [part for part in turn.parts if isinstance(part, Image) or (isinstance(part, Text) and part.text.strip())]
    text = turn.text
    if turn.role == "system":
        return [Text(as_reminder(text))] if text.strip() else []
    if turn.role == "developer":
        return [Text(f"<context_file>\n{text}\n</context_file>")] if text.strip() else []
    return parts


def _assistant(turn: Turn, with_reasoning: bool) -> Message | None:
    calls = [_call(part) for part in turn.parts if isinstance(part, Call)]
    text = turn.text
    if not calls and not text.strip():
        return None
    message: Message = {"role": "assistant", "content": text}
    if with_reasoning:
        message |= _reasoning(turn)
    return {**message, "tool_calls": calls} if calls else message


def _reasoning(turn: Turn) -> Message:
    thoughts = [part for part in turn.parts if isinstance(part, Thinking)]
    details = [item for part in thoughts for item in _details(part.content)]
    if details:
        return {"reasoning_details": details}
    text = "\n".join(part.text for part in thoughts if part.text)
    field = turn.metadata.get(REASONING_FIELD)
    return {field if field in REASONING_FIELDS else REASONING_FIELDS[0]: text} if text else {}


def _details(content: Any) -> list[Message]:
    """Return the signed details of a thought; what another wire keeps in the same place is none."""
    items = content if isinstance(content, list) else []
    return [item for item in items if isinstance(item, dict) and str(item.get("type", "")).startswith("reasoning.")]


def _call(call: Call) -> Message:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": safe_id(call.id), "type": "function", "function": function}
