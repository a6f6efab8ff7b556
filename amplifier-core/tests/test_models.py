"""Models and protocols: what modules rely on beyond the recorded scenarios."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import interfaces, message_models, models
from amplifier_core.interfaces import (
    ApprovalRequest,
    Tool,
)
from amplifier_core.message_models import TextBlock
from amplifier_core.models import (
    ToolResult,
    _sanitize_for_llm,
)


class TestSanitizing:
    def test_every_code_point(self) -> None:
        """Exactly the unprintable control characters and the surrogates are dropped."""
        dropped = {*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000)}
        everything = "".join(map(chr, range(0x11000)))
        kept = "".join(chr(point) for point in range(0x11000) if point not in dropped)
        assert _sanitize_for_llm(everything) == kept


def test_models_do_not_import_the_envelope() -> None:
    """The envelope is imported by the first tool result that has content, not before."""
    script = """
import sys
from amplifier_core.models import HookResult, SessionStatus, ToolResult
HookResult(); SessionStatus(session_id="s"); ToolResult(output=1).model_dump_json()
assert "amplifier_core.message_models" not in sys.modules
ToolResult(content=[{"type": "text", "text": "x"}])
assert "amplifier_core.message_models" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


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


async def test_tool_by_inheritance() -> None:
    """A tool that inherits the protocol has an empty input schema until it says otherwise."""

    class Echo(Tool):
        name = "echo"
        description = "says it again"

        async def execute(self, input: dict[str, Any]) -> models.ToolResult:
            return models.ToolResult(output=input)

    assert Echo().input_schema == {}
    assert (await Echo().execute({"a": 1})).output == {"a": 1}


def test_models_of_the_signatures() -> None:
    """The models that the protocols speak of can be imported from here too."""
    for name in ("ChatRequest", "ChatResponse", "ToolCall"):
        assert getattr(interfaces, name) is getattr(message_models, name)
    for name in ("HookResult", "ModelInfo", "ProviderInfo", "ToolResult"):
        assert getattr(interfaces, name) is getattr(models, name)


def test_light_modules_do_not_import_pydantic() -> None:
    """Protocols, errors, constants, streamed blocks and helpers cost no pydantic; redaction costs no asyncio."""
    script = """
import sys
import amplifier_core.utils
from amplifier_core.utils import redact_secrets
assert "asyncio" not in sys.modules
import amplifier_core.utils.retry, amplifier_core.llm_errors, amplifier_core.capabilities
import amplifier_core.content_models, amplifier_core.approval, amplifier_core.display, amplifier_core.module_sources
from amplifier_core.interfaces import Tool
assert "pydantic" not in sys.modules
from amplifier_core.interfaces import ApprovalRequest
assert "pydantic" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("timeout", [0, -1, -0.5, math.nan])
def test_approval_timeout_must_be_positive(timeout: float) -> None:
    """A wait that is not positive is refused with the published text."""
    with pytest.raises(ValidationError, match=r"Timeout must be positive or None \(infinite wait\)"):
        ApprovalRequest(tool_name="t", action="a", risk_level="low", timeout=timeout)
