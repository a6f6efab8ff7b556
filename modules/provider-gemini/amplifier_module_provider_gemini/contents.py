"""Write a conversation the way Gemini takes it, the same way every time.

In the JSON of the service, which the SDK's types are then read from: so it can be shown and compared, and bytes are
base64 as they are in transcripts.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator
from typing import Any, Final

from amplifier_kit.llm import (
    Call,
    Conversation,
    Image,
    Part,
    Redacted,
    Result,
    Text,
    Thinking,
    Turn,
    as_reminder,
    safe_id,
)

__all__ = ["ORIGIN", "RAW_CONTENT", "SIGNATURE", "TEXT_SIGNATURE", "contents_of", "system_of"]

ORIGIN: Final = "gemini"
#: Where a message keeps its parts as they came, when it used tools that run at Google's.
RAW_CONTENT: Final = "gemini:content"
#: Where a call keeps the signature of the thoughts that led to it, and thinking that of the text behind it.
SIGNATURE: Final = "gemini:thought_signature"
TEXT_SIGNATURE: Final = "gemini:text_signature"

_EMPTY: Final = "(empty)"
#: Gemini's own word for "this call has no signature": of another service's model, say. Base64, like all signatures.
_UNSIGNED: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

Json = dict[str, Any]


def system_of(conversation: Conversation) -> Json | None:
    """Return the system prompt, None when there is none."""
    parts = [{"text": text} for text in conversation.system if text.strip()]
    return {"parts": parts} if parts else None


def contents_of(conversation: Conversation, *, is_third: bool) -> list[Json]:
    """Return the contents, beginning with the user; all results of one message of the model stand in one content.

    `is_third` is for models of the third generation: they take images inside of results, and insist on a signature of
    the first call of a message.
    """
    contents: list[Json] = []
    # Results are not mixed with words: their number must be that of the calls before them.
    last: str | None = None
    for turn in conversation.turns:
        kind = "model" if turn.role == "assistant" else "results" if turn.role == "tool" else "user"
        parts = _model(turn, is_third) if kind == "model" else list(_user(turn, is_third))
        if not parts:
            continue
        if kind == last:
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": "model" if kind == "model" else "user", "parts": parts})
        last = kind
    if contents and contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": _EMPTY}]})
    return contents


# -- the user's side --


def _user(turn: Turn, is_third: bool) -> Iterator[Json]:
    if turn.role == "system":
        if turn.text.strip():
            yield {"text": as_reminder(turn.text)}
        return
    if turn.role == "developer":
        if turn.text.strip():
            yield {"text": f"<context_file>\n{turn.text}\n</context_file>"}
        return
    for part in turn.parts:
        if isinstance(part, Result):
            yield from _result(part, is_third)
        elif isinstance(part, Image):
            yield _image(part)
        elif isinstance(part, Text) and part.text.strip():
            yield {"text": part.text}


def _result(result: Result, is_third: bool) -> Iterator[Json]:
    said = result.text if result.text.strip() else "(see the image)" if result.images else _EMPTY
    response: Json = {"id": safe_id(result.call_id), "name": result.name or "tool", "response": {"result": said}}
    images = [_image(image) for image in result.images]
    if is_third and images:
        response["parts"] = images
    yield {"functionResponse": response}
    if not is_third:
        yield from images


def _image(image: Image) -> Json:
    if image.data is not None:
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    kind = mimetypes.guess_type((image.url or "").partition("?")[0])[0]
    return {"fileData": {"mimeType": kind or image.media_type, "fileUri": image.url}}


# -- the model's side --


def _model(turn: Turn, is_third: bool) -> list[Json]:
    raw = turn.metadata.get(RAW_CONTENT)
    calls = [part.id for part in turn.parts if isinstance(part, Call)]
    if isinstance(raw, list) and raw and _called(raw) == calls:
        return [dict(part) for part in raw]
    parts = _written(turn.of_origin(ORIGIN).parts)
    called = [part for part in parts if "functionCall" in part]
    if is_third and called and not any("thoughtSignature" in part for part in called):
        called[0]["thoughtSignature"] = _UNSIGNED
    # Thoughts cannot stand alone.
    return parts if any(not part.get("thought") for part in parts) else []


def _called(raw: Iterable[Json]) -> list[Any]:
    return [part["functionCall"].get("id") for part in raw if "functionCall" in part]


def _written(given: Iterable[Part]) -> list[Json]:
    parts: list[Json] = []
    text_signature: str | None = None
    for part in given:
        match part:
            case Text() if part.text.strip():
                parts.append({"text": part.text})
            case Thinking():
                text_signature = _text_signature(part) or text_signature
                # Thoughts are a summary for people; only what is signed means anything to the model.
                if part.signature:
                    parts.append({"text": part.text, "thought": True, "thoughtSignature": part.signature})
            case Call():
                parts.append(_call(part))
            case Image():
                parts.append(_image(part))
            case Redacted() | Result() | Text():
                pass  # Gemini has none of the first, and the others say nothing here
    if text_signature is not None:
        last = next((part for part in reversed(parts) if "text" in part and not part.get("thought")), None)
        if last is not None:
            last["thoughtSignature"] = text_signature
    return parts


def _text_signature(thinking: Thinking) -> str | None:
    kept = thinking.content if isinstance(thinking.content, list) else []
    found = [item[TEXT_SIGNATURE] for item in kept if isinstance(item, dict) and TEXT_SIGNATURE in item]
    return str(found[0]) if found else None


def _call(call: Call) -> Json:
    part: Json = {"functionCall": {"id": safe_id(call.id), "name": call.name, "args": call.arguments}}
    if call.extra.get(SIGNATURE):
        part["thoughtSignature"] = call.extra[SIGNATURE]
    return part
