"""ToolResult: what tools answer, and what of it programs, hooks and models see."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import threading
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from amplifier_core.message_models import ImageBlock, TextBlock, ThinkingBlock
from amplifier_core.models import ToolResult

PIXELS = base64.b64encode(b"pixels").decode()


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS, **source}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def with_content(content: Any) -> ToolResult:
    return ToolResult(content=content)


class TestConstruction:
    def test_failure_speaks_through_its_output(self) -> None:
        """A failure without output takes the error's message as output."""
        result = ToolResult(success=False, error={"message": "boom", "code": 7})
        assert result.output == "boom"
        assert "output" in result.model_fields_set

    def test_empty_output_is_output(self) -> None:
        """A failure whose output is empty text does not take the error's message."""
        assert ToolResult(success=False, output="", error={"message": "x"}).output == ""

    @pytest.mark.parametrize("fields", [{"error": "text"}, {"error": {1: 2}}, {"success": "maybe"}])
    def test_refusals(self, fields: dict[str, Any]) -> None:
        """A field of the wrong type is refused."""
        with pytest.raises(ValidationError):
            ToolResult(**fields)


class TestAssignment:
    def test_values_are_validated(self) -> None:
        """An assignment is coerced or refused like an argument."""
        result = ToolResult()
        result.success = "no"  # type: ignore[assignment]
        assert result.success is False
        with pytest.raises(ValidationError):
            result.success = "maybe"  # type: ignore[assignment]

    def test_unknown_attribute(self) -> None:
        """A field that does not exist cannot be assigned."""
        with pytest.raises(ValidationError):
            ToolResult().surprise = 1  # type: ignore[attr-defined]

    def test_content(self) -> None:
        """Assigned content follows the same rules as given content."""
        result: Any = ToolResult()
        result.content = [image()]
        assert isinstance(result.content[0], ImageBlock)
        result.content = []
        assert result.content is None
        with pytest.raises(ValidationError, match="invalid tool result content"):
            result.content = [5]

    def test_output_is_derived_at_construction_only(self) -> None:
        """An error assigned later does not overwrite the output."""
        result = ToolResult(success=False)
        result.error = {"message": "late"}
        assert result.output is None


class TestText:
    @pytest.mark.parametrize(
        ("fields", "serialized"),
        [
            ({"output": (1, 2)}, "(1, 2)"),
            ({"output": Decimal("2.5")}, "2.5"),
            ({"output": []}, "[]"),
            ({"output": "a\x00b\ud800c\td\r\n"}, "abc\td\r\n"),
            ({"success": False, "error": {"message": "bad\x07"}}, "bad"),
        ],
    )
    def test_get_serialized_output(self, fields: dict[str, Any], serialized: str) -> None:
        """The model reads structured output as JSON and everything else as clean text."""
        assert ToolResult(**fields).get_serialized_output() == serialized

    def test_message_when_output_was_cleared(self) -> None:
        """A failure whose output was removed tells the cleaned message of its error."""
        result = ToolResult(success=False, error={"message": "bad\x07"})
        result.output = None
        assert result.get_serialized_output() == "Error: bad"


class TestDump:
    def test_three_keys_without_content(self) -> None:
        """Without content the dump has its legacy three keys, in every mode."""
        for result in (ToolResult(output=1), ToolResult(output=1, content=[]), ToolResult(output=1, content=None)):
            assert result.model_dump() == {"success": True, "output": 1, "error": None}
            assert json.loads(result.model_dump_json()) == {"success": True, "output": 1, "error": None}

    def test_empty_content_of_an_unvalidated_result(self) -> None:
        """Even a result built without validation omits empty content."""
        assert "content" not in ToolResult.model_construct(content=[]).model_dump()

    def test_unvalidated_content_is_dumped_as_it_is(self) -> None:
        """A result built without validation can still be dumped."""
        unvalidated = ToolResult.model_construct(content=[5])  # type: ignore[list-item]
        assert unvalidated.model_dump()["content"] == [5]

    def test_blocks_have_type_and_payload_alone(self) -> None:
        """Blocks are dumped without visibility, in every mode and when nested in another model."""

        class Holder(BaseModel):
            result: ToolResult

        result = with_content([text("a"), image()])
        assert result.model_dump()["content"] == [text("a"), image()]
        assert json.loads(result.model_dump_json())["content"] == [text("a"), image()]
        assert Holder(result=result).model_dump()["result"]["content"] == [text("a"), image()]
        assert Holder(result=ToolResult()).model_dump() == {"result": {"success": True, "output": None, "error": None}}

    def test_schema_names_the_blocks(self) -> None:
        """The JSON schema describes content by its two kinds of block."""
        for mode in ("validation", "serialization"):
            schema = ToolResult.model_json_schema(mode=mode)
            assert set(schema["properties"]) == {"success", "output", "error", "content"}
            assert {"TextBlock", "ImageBlock"} <= set(schema["$defs"])


class TestCopy:
    def test_update_is_validated(self) -> None:
        """A copy coerces and refuses what is updated."""
        result = with_content([text("a")])
        assert result.model_copy(update={"success": "no"}).success is False
        assert result.model_copy(update={"content": []}).content is None
        with pytest.raises(ValidationError, match="invalid tool result content"):
            result.model_copy(update={"content": [5]})

    def test_update_can_make_a_failure(self) -> None:
        """A copy that becomes a failure takes its output from the error."""
        failed = ToolResult().model_copy(update={"success": False, "error": {"message": "z"}})
        assert failed.output == "z"

    def test_unknown_update_is_ignored(self) -> None:
        """A key that no field has is dropped."""
        assert ToolResult(output=1).model_copy(update={"surprise": 1}) == ToolResult(output=1)

    def test_containers_are_not_shared(self) -> None:
        """Changing the copy's output or content leaves the original alone; objects are shared unless deep."""
        secret = threading.Event()
        result = ToolResult(output={"list": [1], "event": secret}, content=[text("a")])
        copied = result.model_copy()
        assert copied == result
        copied.output["list"].append(2)
        assert copied.content is not None
        copied.content.clear()
        assert result.output["list"] == [1]
        assert result.content == [TextBlock(text="a")]
        assert copied.output["event"] is secret

    def test_deep_copy(self) -> None:
        """A deep copy shares no object."""
        result = ToolResult(output=[TextBlock(text="a")])
        assert result.model_copy(deep=True).output[0] is not result.output[0]

    def test_subclass_keeps_its_own_fields(self) -> None:
        """A copy of a subclass is of that subclass, with its own fields and extra keys intact."""

        class Timed(ToolResult, extra="allow"):
            seconds: float = 0.0

        copied = Timed(output=1, seconds=2.5, host="h").model_copy(update={"output": 2})
        assert copied == Timed(output=2, seconds=2.5, host="h")

    def test_other_copies(self) -> None:
        """copy, deepcopy and pickle give equal results."""
        result = with_content([text("a"), image()])
        assert copy.copy(result) == copy.deepcopy(result) == pickle.loads(pickle.dumps(result)) == result


class TestHookPresentation:
    def test_output_is_not_scrubbed_but_not_shared(self) -> None:
        """Output is shown whole, and changing the presentation does not change the result."""
        result = ToolResult(output={"token": "t", "list": [1]}, error={"inner": [1]})
        shown = result.safe_hook_presentation()
        assert shown["output"] == {"token": "t", "list": [1]}
        shown["output"]["list"].append(2)
        shown["error"]["inner"].append(2)
        assert result == ToolResult(output={"token": "t", "list": [1]}, error={"inner": [1]})

    def test_hostile_output(self) -> None:
        """Output that contains itself, or what JSON cannot hold, does not raise."""
        cyclic: list[Any] = [{1}, float("nan"), "\ud800"]
        cyclic.append(cyclic)
        assert ToolResult(output=cyclic).safe_hook_presentation()["output"][3] == "[CIRCULAR]"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
blocks = st.builds(text, st.text()) | st.builds(
    lambda pixels, subtype: image(data=base64.b64encode(pixels).decode(), media_type=f"image/{subtype}"),
    st.binary(min_size=1, max_size=64),
    st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9._+-]{0,20}", fullmatch=True),
)
results = st.builds(
    ToolResult,
    success=st.booleans(),
    output=json_values,
    error=st.none() | st.dictionaries(st.sampled_from(["message", "code"]), json_values),
    content=st.none() | st.lists(blocks, max_size=4),
)


class TestRoundTrips:
    @given(results)
    def test_python_and_json(self, result: ToolResult) -> None:
        """Every result is read back from its dumps as an equal one."""
        assert ToolResult.model_validate(result.model_dump()) == result
        assert ToolResult.model_validate_json(result.model_dump_json()) == result

    @given(results)
    def test_copy_is_equal(self, result: ToolResult) -> None:
        """A copy without update is equal."""
        assert result.model_copy() == result

    @given(results)
    def test_content_key_only_with_content(self, result: ToolResult) -> None:
        """The key is there exactly when there is content, in dumps and in what hooks see."""
        assert ("content" in result.model_dump()) == bool(result.content)
        assert ("content" in result.safe_hook_presentation()) == bool(result.content)

    @given(results)
    def test_hooks_never_see_an_image(self, result: ToolResult) -> None:
        """What hooks see of content is text alone."""
        shown = result.safe_hook_presentation().get("content", [])
        assert all(block["type"] == "text" and set(block) == {"type", "text"} for block in shown)

    @given(results)
    def test_serialized_output_is_clean(self, result: ToolResult) -> None:
        """What a model reads can always be encoded and holds no control character."""
        serialized = result.get_serialized_output()
        serialized.encode()
        assert not any(ord(char) < 32 and char not in "\t\n\r" for char in serialized)


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
    blocks_given = [
        {**text("a"), "visibility": "nonsense", "cache": 1},
        TextBlock(text="a", visibility="user", cache=1),
        {**image(detail="high"), "cache": 1},
    ]
    content = with_content(blocks_given).content
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
