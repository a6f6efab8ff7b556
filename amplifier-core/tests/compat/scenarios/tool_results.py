"""The results of tools."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from amplifier_core import ToolResult
from amplifier_core.models import _sanitize_for_llm

from .base import Stage, outcome, scenario

PIXEL = "iVBORw0KGgo="


def image(**source: Any) -> dict[str, Any]:
    """Make an image block."""
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL, **source}}


@scenario
async def defaults(stage: Stage) -> Any:
    """An empty result, and its short dump."""
    return [ToolResult(), list(ToolResult().model_dump()), ToolResult(unknown=1).model_dump_json()]


@scenario
async def output_from_error(stage: Stage) -> Any:
    """A failure without output takes its error's message."""
    tries: list[dict[str, Any]] = [
        {"success": False, "error": {"message": "m"}},
        {"success": False, "error": {"message": ""}},
        {"success": False, "error": {"code": 1}},
        {"success": False, "error": {"message": "m"}, "output": "kept"},
        {"success": True, "error": {"message": "m"}},
        {"success": False},
    ]
    return [ToolResult(**fields).output for fields in tries]


RESULTS: list[dict[str, Any]] = [
    {"output": "text"},
    {"output": ""},
    {"output": 0},
    {"output": None},
    {"output": {"a": [1, None, "é"]}},
    {"output": [1, 2]},
    {"output": {"d": Decimal("1.10")}},
    {"output": True},
    {"success": False},
    {"success": False, "error": {"message": "m"}},
    {"success": False, "error": {"code": 1}},
    {"success": False, "error": {}},
    {"success": False, "output": {"a": 1}, "error": {"message": "m"}},
    {"output": "a\x00b\x1b[0m\tc"},
]


@scenario
async def as_text(stage: Stage) -> Any:
    """str() of each kind of result."""
    return [str(ToolResult(**fields)) for fields in RESULTS]


@scenario
async def serialised(stage: Stage) -> Any:
    """What a model is given of each kind of result."""
    return [await outcome(lambda fields=fields: ToolResult(**fields).get_serialized_output()) for fields in RESULTS]


@scenario
async def not_serialisable(stage: Stage) -> Any:
    """Output with a foreign type inside."""
    return await outcome(lambda: ToolResult(output={"o": {1, 2}}).get_serialized_output())


@scenario
async def sanitising(stage: Stage) -> Any:
    """Which characters are dropped."""
    kept = _sanitize_for_llm("".join(map(chr, range(0x100))) + "\ud800\udfff\u2028\U0001f600")
    return [[ord(char) for char in kept if ord(char) < 32 or ord(char) > 0x9E], len(kept)]


@scenario
async def content(stage: Stage) -> Any:
    """Content blocks are kept clean."""
    result = ToolResult(
        output="o", content=[{"type": "text", "text": "t", "visibility": "user", "x": 1}, image(extra=1)]
    )
    return [result, ToolResult(content=[]).content, list(ToolResult(content=[]).model_dump())]


@scenario
async def refused_content(stage: Stage) -> Any:
    """Content that is refused, with the reason."""
    tries: list[Any] = [
        "text",
        ["text"],
        [{"type": "video"}],
        [{"type": "text"}],
        [{"type": "text", "text": 5}],
        [{"type": "image"}],
        [{"type": "image", "source": {"type": "url", "url": "x"}}],
        [image(media_type="text/plain")],
        [image(media_type="IMAGE/png")],
        [image(media_type="image/svg+xml; charset=utf-8")],
        [image(media_type="image/svg+xml")],
        [image(data="")],
        [image(data="not base64!")],
        [image(data="iVBORw0KGgo")],
        [image(data="iVBORw0KGgp=")],
    ]
    return [str(await outcome(lambda given=given: ToolResult(content=given) and "accepted")) for given in tries]


@scenario
async def assignment(stage: Stage) -> Any:
    """Assigned values are checked; a refusal does not show the value."""
    result = ToolResult(output="o")
    said = str(await outcome(lambda: setattr(result, "success", "secret-value")))
    whole = ""
    try:
        ToolResult(success="secret-value")
    except ValueError as error:
        whole = str(error)
    return [said, "secret-value" in whole, result.success]


@scenario
async def copies(stage: Stage) -> Any:
    """A copy with changes is checked too."""
    result = ToolResult(output="o")
    good = result.model_copy(update={"content": [image()]})
    return [good, str(await outcome(lambda: result.model_copy(update={"success": "perhaps"})))[:16]]


@scenario
async def for_hooks(stage: Stage) -> Any:
    """What hooks are shown: images are left out."""
    with_image = ToolResult(output={"o": 1}, content=[{"type": "text", "text": "t"}, image()])
    return [
        with_image.safe_hook_presentation(),
        ToolResult(success=False, error={"message": "m"}).safe_hook_presentation(),
    ]
