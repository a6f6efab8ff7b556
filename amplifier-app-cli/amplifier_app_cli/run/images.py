"""Read images that a prompt is about."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_foundation.prompt.access import PromptAccess

#: Kinds that models take, by the bytes they start with.
_KINDS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)
#: The largest that providers take.
_LARGEST: Final = 20 * 1024 * 1024


class ImageError(FoundationError):
    """A file that was given as an image cannot be used as one."""

    code = "image_invalid"


def read_image(path: Path, access: PromptAccess) -> dict[str, Any]:
    """Return the content block of an image file that the user named.

    Raises ImageError for a file that is none, or too large, and ReadDeniedError for one that rules deny.
    """
    from amplifier_foundation.prompt.access import TYPED, ReadDeniedError

    try:
        content = access.read_bytes(path.absolute(), TYPED, _LARGEST + 1)
    except ReadDeniedError:
        raise
    except FoundationError as error:
        raise ImageError(f"{path}: {error}") from error
    kind = next((kind for start, kind in _KINDS if content.startswith(start)), None)
    if kind is None or (kind == "image/webp" and content[8:12] != b"WEBP"):
        raise ImageError(f"{path}: not an image that models take: give a PNG, JPEG, GIF or WebP file")
    if len(content) > _LARGEST:
        raise ImageError(f"{path}: too large for a model, {_LARGEST:,} bytes is the most")
    data = base64.b64encode(content).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


async def put_into_prompt(context: Any, images: Sequence[dict[str, Any]]) -> None:
    """Let the next prompt that a context is given have images before its words, in one message.

    A message of their own would count as a turn of its own, and be left behind when the turn is taken back; it is made
    for a context, and for a prompt, that do not let themselves be changed.
    """
    from amplifier_foundation.sessions.turns import starts_turn

    async def add(message: Any) -> None:
        is_mapping = isinstance(message, Mapping)
        if is_mapping and not starts_turn(message):
            await given(message)
            return
        del context.add_message  # the class's own is the one again
        words = message.get("content") if is_mapping else None
        if isinstance(words, str):
            message = {**message, "content": [*images, {"type": "text", "text": words}]}
        else:
            await given(alone)
        await given(message)

    alone = {"role": "user", "content": list(images)}
    given = context.add_message
    try:
        context.add_message = add
    except AttributeError:  # it has slots
        await given(alone)
