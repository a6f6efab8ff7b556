"""ToolResult: what tools answer, and what of it programs, hooks and models see."""

from __future__ import annotations

from amplifier_core.message_models import TextBlock
from amplifier_core.models import ToolResult


class TestDump:
    def test_schema_names_the_blocks(self) -> None:
        """The JSON schema describes content by its two kinds of block."""
        for mode in ("validation", "serialization"):
            schema = ToolResult.model_json_schema(mode=mode)
            assert set(schema["properties"]) == {"success", "output", "error", "content"}
            assert {"TextBlock", "ImageBlock"} <= set(schema["$defs"])


class TestCopy:
    def test_deep_copy(self) -> None:
        """A deep copy shares no object."""
        result = ToolResult(output=[TextBlock(text="a")])
        assert result.model_copy(deep=True).output[0] is not result.output[0]
