"""In our program nothing is granted because the session could not be asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.guard import authorization

ROOT = Path(__file__).resolve().parent.parent
#: Who looks whether a coordinator can be asked, and why.
LOOKING = {
    "amplifier_kit/guard/authorization.py": "decides for all tools and loops",
    "amplifier_module_hooks_approval/__init__.py": "registers gates where the kernel has them",
    "amplifier_module_hooks_approval/gate.py": "decides by itself on a kernel without policies, and denies on ours",
    "amplifier_module_hooks_mode/__init__.py": "registers its policy where the kernel has them",
    "amplifier_module_hooks_mode/enforcement.py": "leaves the question to its policy where the kernel has them",
    "amplifier_module_tool_mode/tool.py": "holds its gate closed where no policy could have asked",
    "amplifier_module_hooks_redaction/__init__.py": "masks the log where the kernel has one",
    "amplifier_module_hook_shell/__init__.py": "registers gates where the kernel has them",
}
_LOOKUP = re.compile(r"""(?:getattr|hasattr)\([^)]*["']authorize["']|\bkernel_has_policies\(\)""")


def test_one_function_decides_without_policies() -> None:
    """No other file looks up `authorize`: one that did might grant when it is missing."""
    packages = [*ROOT.glob("amplifier-*/amplifier_*"), *ROOT.glob("modules/*/amplifier_module_*")]
    found = {
        path.relative_to(package.parent).as_posix()
        for package in packages
        for path in package.rglob("*.py")
        if _LOOKUP.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(LOOKING)


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming", "loop-events"])
async def test_the_program_always_asks_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    """A session whose loop and tools ask, also for where a link leads, never comes to the branch of other kernels."""
    taken: list[Any] = []
    asked: list[str] = []
    monkeypatch.setattr(authorization, "_grant_without_policies", taken.append)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "notes.txt").write_text("a needle", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    calls = [
        {"id": "c1", "name": "read_file", "arguments": {"file_path": "link/notes.txt"}},
        {"id": "c2", "name": "grep", "arguments": {"pattern": "needle", "path": "link"}},
    ]
    script = tmp_path / "scenario.json"
    script.write_text(json.dumps({"turns": [{"tool_calls": calls}, {"text": "end"}]}), encoding="utf-8")
    plan = {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
        "tools": [{"module": "tool-filesystem"}, {"module": "tool-search"}],
    }
    runtime = SessionRuntime(Prepared.from_plan(plan, tmp_path / "home", tmp_path), environ={})
    coordinator = runtime.session.coordinator
    coordinator.hooks.register("approval:granted", lambda event, data: asked.append(data["details"]["tool_call_id"]))
    results: list[Any] = []
    coordinator.hooks.register("tool:post", lambda event, data: results.append(data["result"]["success"]))
    async with runtime:
        assert await runtime.execute("go") == "end"
    assert results == [True, True]
    assert len(asked) >= len(calls)
    assert taken == []
