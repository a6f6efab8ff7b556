"""Write a conversation the way Ollama takes it, the same way every time."""

from __future__ import annotations

from typing import Any, Final

from amplifier_kit.llm import Call, Conversation, Image, Result, Text, Thinking, Turn, as_reminder, safe_id

__all__ = ["ORIGIN", "messages_of"]

ORIGIN: Final = "ollama"

_EMPTY: Final = "(empty)"

Json = dict[str, Any]


def messages_of(conversation: Conversation) -> list[Json]:
    """Return the messages; images of results follow in a message of the user, behind all results of their group."""
    messages: list[Json] = [{"role": "system", "content": text} for text in conversation.system if text.strip()]
    shown: list[str] = []
    for turn in conversation.turns:
        if turn.role != "tool" and shown:
            messages.append(_shown(shown))
            shown = []
        message = _message(turn)
        if message is not None:
            messages.append(message)
        for part in turn.parts:
            if isinstance(part, Result):
                shown += _images(part.images)
    return [*messages, _shown(shown)] if shown else messages


def _message(turn: Turn) -> Json | None:
    if turn.role == "assistant":
        return _assistant(turn)
    if turn.role == "tool":
        return _result(turn)
    if turn.role == "system":
        # Many templates put all instructions in front, wherever they stand.
        return {"role": "user", "content": as_reminder(turn.text)} if turn.text.strip() else None
    if turn.role == "developer":
        text = f"<context_file>\n{turn.text}\n</context_file>"
        return {"role": "user", "content": text} if turn.text.strip() else None
    given = [part for part in turn.parts if isinstance(part, Image)]
    text = "\n".join([*([turn.text] if turn.text.strip() else []), *_links(given)])
    images = _images(given)
    if not text and not images:
        return None
    return {"role": "user", "content": text, **({"images": images} if images else {})}


def _assistant(turn: Turn) -> Json | None:
    kept = turn.of_origin(ORIGIN).parts
    text = "".join(part.text for part in kept if isinstance(part, Text))
    calls = [_call(part) for part in kept if isinstance(part, Call)]
    if not text.strip() and not calls:
        return None
    thinking = "".join(part.text for part in kept if isinstance(part, Thinking))
    message: Json = {"role": "assistant", "content": text}
    message |= {"thinking": thinking} if thinking else {}
    return message | ({"tool_calls": calls} if calls else {})


def _call(call: Call) -> Json:
    return {"id": safe_id(call.id), "function": {"name": call.name, "arguments": call.arguments}}


def _result(turn: Turn) -> Json:
    [result] = [part for part in turn.parts if isinstance(part, Result)]
    text = "\n".join([*([result.text] if result.text.strip() else []), *_links(result.images)])
    content = text or ("(see the image)" if result.images else _EMPTY)
    return {
        "role": "tool",
        "content": content,
        "tool_name": result.name or "tool",
        "tool_call_id": safe_id(result.call_id),
    }


def _shown(images: list[str]) -> Json:
    return {"role": "user", "content": "The images of the results above:", "images": images}


def _images(images: Any) -> list[str]:
    return [image.data for image in images if image.data is not None]


def _links(images: Any) -> list[str]:
    """Name the images that are elsewhere: Ollama fetches none."""
    return [f"[image: {image.url}]" for image in images if image.data is None]
