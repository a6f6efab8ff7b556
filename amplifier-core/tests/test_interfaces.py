"""Protocols: the shape of each kind of module, and the approval models."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from amplifier_core import interfaces, message_models, models
from amplifier_core.interfaces import (
    Tool,
)


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
