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

from amplifier_core.message_models import ImageBlock, TextBlock
from amplifier_core.models import ToolResult

PIXELS = base64.b64encode(b"pixels").decode()
NOTE = "[Image omitted from tool event; original retained for model request if unmodified.]"


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS, **source}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def with_content(content: Any) -> ToolResult:
    return ToolResult(content=content)


class TestConstruction:
    def test_defaults(self) -> None:
        """A bare result is a success with nothing in it."""
        result = ToolResult()
        assert (result.success, result.output, result.error, result.content) == (True, None, None, None)

    def test_failure_speaks_through_its_output(self) -> None:
        """A failure without output takes the error's message as output."""
        result = ToolResult(success=False, error={"message": "boom", "code": 7})
        assert result.output == "boom"
        assert "output" in result.model_fields_set

    @pytest.mark.parametrize(
        ("fields", "output"),
        [
            ({"success": True, "error": {"message": "x"}}, None),
            ({"success": False, "output": "mine", "error": {"message": "x"}}, "mine"),
            ({"success": False, "output": "", "error": {"message": "x"}}, ""),
            ({"success": False, "error": {"detail": "x"}}, None),
            ({"success": False, "error": {"message": ""}}, None),
            ({"success": False, "error": {}}, None),
            ({"success": False}, None),
        ],
    )
    def test_output_is_left_alone(self, fields: dict[str, Any], output: Any) -> None:
        """A success, an output already set, and an error without message change nothing."""
        assert ToolResult(**fields).output == output

    def test_there_is_no_is_error(self) -> None:
        """The field that some documents name does not exist."""
        assert not hasattr(ToolResult(is_error=True), "is_error")

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
        ("fields", "shown"),
        [
            ({"output": "hi"}, "hi"),
            ({"output": {"a": 1}}, "{'a': 1}"),
            ({"output": ""}, "Success"),
            ({"output": 0}, "Success"),
            ({}, "Success"),
            ({"success": False, "error": {"message": "m"}}, "Error: m"),
            ({"success": False, "error": {"code": 1}}, "Error: Unknown error"),
            ({"success": False, "error": {}}, "Failed"),
            ({"success": False, "output": "o"}, "Failed"),
        ],
    )
    def test_str(self, fields: dict[str, Any], shown: str) -> None:
        """str() gives the output, or the error, in one line."""
        assert str(ToolResult(**fields)) == shown

    @pytest.mark.parametrize(
        ("fields", "serialized"),
        [
            ({"output": "hi"}, "hi"),
            ({"output": ""}, ""),
            ({"output": 0}, "0"),
            ({"output": False}, "False"),
            ({"output": (1, 2)}, "(1, 2)"),
            ({"output": Decimal("2.5")}, "2.5"),
            ({"output": []}, "[]"),
            ({"output": {"a": [1, None]}}, '{"a": [1, null]}'),
            ({"output": {"price": Decimal("1.20")}}, '{"price": "1.20"}'),
            ({"output": {"é": 1}}, '{"\\u00e9": 1}'),
            ({"output": "a\x00b\ud800c\td\r\n"}, "abc\td\r\n"),
            ({}, "Success"),
            ({"success": False}, "Error: Failed"),
            ({"success": False, "error": {}}, "Error: Failed"),
            ({"success": False, "error": {"code": 1}}, "Error: Unknown error"),
            ({"success": False, "output": {"why": "x"}}, '{"why": "x"}'),
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

    def test_foreign_types(self) -> None:
        """Structured output that JSON cannot express raises the usual TypeError."""
        with pytest.raises(TypeError, match=r"^Object of type set is not JSON serializable$"):
            ToolResult(output={"x": {1}}).get_serialized_output()


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
    def test_images_are_replaced(self) -> None:
        """Hooks see text as it is and a note in place of each image."""
        result = ToolResult(success=False, output="o", error={"code": 1}, content=[text("a"), image()])
        assert result.safe_hook_presentation() == {
            "success": False,
            "output": "o",
            "error": {"code": 1},
            "content": [text("a"), text(NOTE)],
        }

    def test_no_content_no_key(self) -> None:
        """Without content the presentation has three keys."""
        assert ToolResult(output=1).safe_hook_presentation() == {"success": True, "output": 1, "error": None}

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


# A slow machine is no failure.


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
