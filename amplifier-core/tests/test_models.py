"""Models: defaults, refusals and dumps that modules rely on."""

from __future__ import annotations

import subprocess
import sys

from amplifier_core.models import (
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
