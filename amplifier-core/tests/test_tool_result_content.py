"""Content of tool results: what is let through to a model, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.message_models import ImageBlock, TextBlock, ThinkingBlock
from amplifier_core.models import ToolResult

PIXELS = base64.b64encode(b"pixels").decode()


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS, **source}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def with_content(content: Any) -> ToolResult:
    return ToolResult(content=content)


def test_blocks() -> None:
    """Dicts and block objects become blocks; tuples count as lists."""
    blocks = (text("a"), TextBlock(text="b"), image(), ImageBlock(source=image()["source"]))
    content = with_content(blocks).content
    assert content == [
        TextBlock(text="a"),
        TextBlock(text="b"),
        ImageBlock(source=image()["source"]),
        ImageBlock(source=image()["source"]),
    ]


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_empty_becomes_none(nothing: Any) -> None:
    """An empty list is no content."""
    assert with_content(nothing).content is None


def test_empty_text_is_content() -> None:
    """A text block may hold no text."""
    assert with_content([text("")]).content == [TextBlock(text="")]


def test_unknown_keys_and_visibility_are_dropped() -> None:
    """Nothing but type and payload survives, whether given by dict or by block."""
    given_blocks = [
        {**text("a"), "visibility": "nonsense", "cache": 1},
        TextBlock(text="a", visibility="user", cache=1),
        {**image(detail="high"), "cache": 1},
    ]
    content = with_content(given_blocks).content
    assert content is not None
    assert [block.model_dump(exclude_none=True) for block in content] == [text("a"), text("a"), image()]


def test_content_is_a_copy() -> None:
    """Changing what was given does not change the result."""
    given_image = image()
    result = with_content([given_image])
    given_image["source"]["data"] = "changed"
    assert result.model_dump()["content"] == [image()]


@pytest.mark.parametrize(
    "content",
    [
        "text",
        "",
        5,
        0,
        False,
        {},
        text("a"),
        {1},
        iter([text("a")]),
        ["a"],
        [None],
        [[text("a")]],
        [{"text": "a"}],
        [{"type": "text"}],
        [{"type": "text", "text": 5}],
        [{"type": "text", "text": None}],
        [{"type": ["text"], "text": "a"}],
        [{"type": "thinking", "thinking": "a"}],
        [ThinkingBlock(thinking="a")],
        [text("lone surrogate \ud800")],
        [text("fine"), 5],
    ],
)
def test_not_a_list_of_known_objects(content: Any) -> None:
    """Content that is no list of text and image objects is refused."""
    with pytest.raises(ValidationError, match="Value error, invalid tool result content "):
        with_content(content)


@pytest.mark.parametrize("source", [None, "url", {}, {"type": "url", "url": "x"}, {**image()["source"], "type": 1}])
def test_image_source(source: Any) -> None:
    """An image must be given by value."""
    with pytest.raises(ValidationError, match="invalid tool result image source"):
        with_content([{"type": "image", "source": source}])


def test_image_without_source() -> None:
    """An image without source is refused as such."""
    with pytest.raises(ValidationError, match="invalid tool result image source"):
        with_content([{"type": "image"}])


@pytest.mark.parametrize(
    "media_type",
    [
        "image/png",
        "image/PNG",
        "image/svg+xml",
        "image/x-icon",
        "image/vnd.ms-a_b",
        "image/1",
        "image/" + "a" * 300,
    ],
)
def test_media_type(media_type: str) -> None:
    """Any well-formed image type is kept as written, however long or new."""
    assert with_content([image(media_type=media_type)]).model_dump()["content"] == [image(media_type=media_type)]


@pytest.mark.parametrize(
    "media_type",
    [
        *(
            "Image/png",
            "IMAGE/png",
            "image/",
            "image",
            "image/-a",
            "image/.a",
            "image/+a",
            "image/a b",
            "image/a/b",
        ),
        *("image/png; q=1", "image/png;q=1", " image/png", "image/png\n", "image/*", "image/é", "image/१"),
        *("text/plain", "application/image/png", "", None, 5, b"image/png"),
    ],
)
def test_bad_media_type(media_type: Any) -> None:
    """A type that is no plain image type is refused."""
    with pytest.raises(ValidationError, match="invalid tool result image media type"):
        with_content([image(media_type=media_type)])


@pytest.mark.parametrize("data", ["QQ==", "AAA=", "AAE=", "AAAA", "+/+/"])
def test_data(data: str) -> None:
    """Canonical base64 is kept as written; no magic number is looked for."""
    assert with_content([image(data=data)]).model_dump()["content"] == [image(data=data)]


@pytest.mark.parametrize(
    "data",
    [
        *("", " ", "Q", "QQ", "QQ=", "QQ===", "=", "====", "QQ==QQ==", "QQ==\n", " QQ==", "QUJD\nQUJD"),
        *("_-_-", "QR==", "AB==", "AAB=", "QQé=", "data:image/png;base64,QQ==", None, 5, b"QQ=="),
    ],
)
def test_bad_data(data: Any) -> None:
    """Anything but canonical padded standard base64 is refused."""
    with pytest.raises(ValidationError, match="invalid tool result image data"):
        with_content([image(data=data)])


def test_no_limits() -> None:
    """Neither the number of blocks nor their size is limited."""
    big = base64.b64encode(bytes(3_000_000)).decode()
    content = with_content([image(data=big), *[text("x")] * 500]).content
    assert content is not None
    assert len(content) == 501


def test_errors_do_not_show_the_input() -> None:
    """The text of a validation error never quotes what was given."""
    for bad in ({"content": [image(data="hunter2")]}, {"success": "hunter2"}, {"error": "hunter2"}):
        with pytest.raises(ValidationError) as caught:
            ToolResult(**bad)
        assert "hunter2" not in str(caught.value)
