"""Turn what servers answer into results: text up to a limit, images as images, everything else as a note."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from amplifier_core import ToolResult
from amplifier_module_tool_mcp._variables import Mask

_MOST_IMAGES: Final = 20
_LARGEST_IMAGE: Final = 5 << 20


class Answer:
    """Gather the parts of one answer."""

    def __init__(self, limit: int, mask: Mask) -> None:
        self._limit = limit
        self._mask = mask
        self._texts: list[str] = []
        self._images: list[dict[str, Any]] = []

    def add(self, blocks: Iterable[Any]) -> None:
        """Take in blocks of any kind that the protocol has."""
        for block in blocks:
            self._texts.extend(self._parts(block))

    def add_text(self, text: str) -> None:
        """Take in a text of our own making."""
        self._texts.append(text)

    @property
    def text(self) -> str:
        """Return all texts there are."""
        return "\n".join(self._texts)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing has come."""
        return not self._texts and not self._images

    def result(self, server: str, name: str, *, is_error: bool = False) -> ToolResult:
        """Return the result; one that is an error says so by the server's own words."""
        whole = _clean(self._mask.answer(self.text))
        is_cut = len(whole) > self._limit
        text = whole
        if is_cut:
            text = f"{whole[: self._limit]}\n[... {len(whole) - self._limit:,} characters are left out here ...]"
        output = {
            "content": text,
            "mcp_server": server,
            "mcp_tool": name,
            "content_size_chars": len(whole),
            "content_truncated": is_cut,
        }
        error = {"message": text or "the tool failed and did not say why", "code": "mcp_tool_error"}
        return ToolResult(
            success=not is_error,
            output=output,
            error=error if is_error else None,
            content=list(self._images) or None,
        )

    def _parts(self, block: Any) -> Iterator[str]:
        kind = getattr(block, "type", None)
        if kind == "text":
            yield block.text
        elif kind == "image":
            yield from self._image(block.data, block.mime_type)
        elif kind == "audio":
            yield f"[audio of type {block.mime_type}, {len(block.data) * 3 // 4:,} bytes: left out]"
        elif kind == "resource_link":
            yield f"[resource {block.name}: {block.uri}]"
        elif kind == "resource":
            yield from self.resource(block.resource)
        else:
            yield f"[a block of type {kind!r}: left out]"

    def resource(self, contents: Any) -> Iterator[str]:
        """Give what may be read of a resource."""
        text = getattr(contents, "text", None)
        kind = getattr(contents, "mime_type", None) or "unknown type"
        if text is not None:
            yield text
        elif kind.startswith("image/"):
            yield from self._image(contents.blob, kind)
        else:
            yield f"[{contents.uri}: {len(contents.blob) * 3 // 4:,} bytes of {kind}: left out]"

    def _image(self, data: str, kind: str) -> Iterator[str]:
        problem = self._problem(data, kind)
        if problem:
            yield f"[image left out: {problem}]"
        else:
            source = {"type": "base64", "media_type": kind, "data": data}
            self._images.append({"type": "image", "source": source})

    def _problem(self, data: str, kind: str) -> str:
        if len(self._images) >= _MOST_IMAGES:
            return f"more than {_MOST_IMAGES} images"
        if len(data) * 3 // 4 > _LARGEST_IMAGE:
            return f"more than {_LARGEST_IMAGE:,} bytes"
        try:
            is_sound = base64.b64encode(base64.b64decode(data, validate=True)).decode("ascii") == data
        except (binascii.Error, ValueError):
            is_sound = False
        return "" if is_sound and data and kind.startswith("image/") else f"invalid image data of type {kind!r}"


def structured_text(value: Any) -> str:
    """Return structured content as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _clean(text: str) -> str:
    """Return text that can be stored and sent: half a surrogate pair cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")
