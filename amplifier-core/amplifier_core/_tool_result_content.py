"""The content of a tool result: text and images for the model, checked to the last byte.

The blocks are envelope models, whose import is paid for only by a result that has content.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from amplifier_core.message_models import ImageBlock, TextBlock

__all__ = ["OMITTED_IMAGE", "ToolResultContent", "present_content"]

#: What hooks see in place of an image.
OMITTED_IMAGE: Final = "[Image omitted from tool event; original retained for model request if unmodified.]"

# The names that RFC 6838 allows, without parameters.
_MEDIA_TYPE: Final = re.compile(r"image/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def validate_content(value: Any) -> list[TextBlock | ImageBlock] | None:
    """Return fresh blocks that share nothing with `value`; None for an empty list.

    Raise ValueError with a fixed text that never quotes the input, which may be large or private.
    """
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise ValueError("invalid tool result content")
    return [_validate_block(item) for item in value] or None


def _validate_block(item: Any) -> TextBlock | ImageBlock:
    from amplifier_core.message_models import ImageBlock, TextBlock

    fields = item.__dict__ if isinstance(item, BaseModel) else item
    kind = fields.get("type") if isinstance(fields, dict) else None
    if kind == "text":
        text = fields.get("text")
        # A lone surrogate is not text: it could be neither sent nor stored.
        if not isinstance(text, str) or _SURROGATE.search(text):
            raise ValueError("invalid tool result content")
        return TextBlock(text=text)
    if kind == "image":
        return ImageBlock(source=_validate_source(fields.get("source")))
    raise ValueError("invalid tool result content")


def _validate_source(source: Any) -> dict[str, Any]:
    if not isinstance(source, dict) or source.get("type") != "base64":
        raise ValueError("invalid tool result image source")
    media_type = source.get("media_type")
    if not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError("invalid tool result image media type")
    data = source.get("data")
    if not isinstance(data, str) or not _is_canonical_base64(data):
        raise ValueError("invalid tool result image data")
    return {"type": "base64", "media_type": str(media_type), "data": str(data)}


def _is_canonical_base64(data: str) -> bool:
    if not data or not data.isascii():
        return False
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    # Bits after the last byte must be zero, so that one image has one spelling.
    return base64.b64encode(decoded).decode("ascii") == data


def dump_content(content: list[TextBlock | ImageBlock] | None) -> list[Any] | None:
    """Return the blocks as plain data with their type and payload alone."""
    if content is None:
        return None
    return [_dump_block(block) for block in content]


def _dump_block(block: Any) -> Any:
    payload = {"text": "text", "image": "source"}.get(getattr(block, "type", None) or "")
    # A result built without validation may hold anything; it is dumped as it is.
    return block.model_dump(include={"type", payload}) if payload else block


def present_content(content: list[TextBlock | ImageBlock]) -> list[dict[str, Any]]:
    """Return the blocks as hooks may see them: text whole, images as a note."""
    return [
        {"type": "text", "text": block.text if block.type == "text" else OMITTED_IMAGE}  # one shape for both kinds
        for block in content
    ]


class _ContentSchema:
    """Teach pydantic the rules above without naming a block class before one is needed."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            validate_content,
            serialization=core_schema.plain_serializer_function_ser_schema(dump_content),
        )

    @staticmethod
    def __get_pydantic_json_schema__(schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        from pydantic import TypeAdapter

        from amplifier_core.message_models import ImageBlock, TextBlock

        return handler(TypeAdapter(list[TextBlock | ImageBlock] | None).core_schema)


if TYPE_CHECKING:
    ToolResultContent = list[TextBlock | ImageBlock] | None
else:
    ToolResultContent = Annotated[Any, _ContentSchema]
