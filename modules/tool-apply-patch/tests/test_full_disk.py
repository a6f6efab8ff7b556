"""A patch for which there is no room changes nothing, leaves nothing, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: Call the tool in a folder, once for every input on standard input, and say what came of each.
CALLS = """
import asyncio, json, pathlib, sys
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_apply_patch import mount

folder = pathlib.Path(sys.argv[1])

def tree():
    return {str(path.relative_to(folder)): path.is_file() and path.read_text() for path in folder.rglob("*")}

async def main():
    coordinator = MockCoordinator()
    coordinator.register_policy("test", lambda action, details: "allow")
    coordinator.register_capability("session.working_dir", str(folder))
    written = []
    for event in ("artifact:write", "apply-patch:applied"):
        coordinator.hooks.register(event, lambda name, data: written.append(data["path"]), name=f"test-{event}")
    await mount(coordinator, {})
    told = []
    for given in json.load(sys.stdin):
        written.clear()
        result = await coordinator.get("tools")["apply_patch"].execute(given)
        told.append({"success": result.success, "error": result.error, "written": list(written), "tree": tree()})
    print(json.dumps(told))

asyncio.run(main())
"""
LINE = "+" + "x" * 99 + "\n"
BEFORE = {"one": "a\nb\n", "gone": "not yet\n"}


@pytest.fixture
def called(without_room: Any, project: Path) -> Any:
    """Give `called(*inputs)`: what comes of calls in a folder that has no room for 300,000 bytes, nor for one file."""
    for name, content in BEFORE.items():
        (project / name).write_text(content, encoding="utf-8")
    return lambda *inputs: without_room(CALLS, project, inputs)


def test_several_files(called: Any) -> None:
    """Of a patch whose last file does not fit, no part is applied; a smaller one is applied afterwards."""
    update = "*** Update File: one\n@@\n a\n-b\n+B\n*** Delete File: gone\n"
    large = f"*** Begin Patch\n{update}*** Add File: new/large\n{LINE * 3000}*** End Patch"
    small = f"*** Begin Patch\n{update}*** Add File: new/small\n+fits\n*** End Patch"
    code, (failed, done) = called({"patch": large}, {"patch": small})
    assert (failed["success"], failed["error"]["code"], failed["written"]) == (False, code, [])
    assert "new/large cannot be written" in failed["error"]["message"]
    assert failed["tree"] == BEFORE
    assert done["success"]
    assert done["tree"] == {"one": "a\nB\n", "new": False, "new/small": "fits\n"}


def test_one_file(called: Any) -> None:
    """An update that makes a file too large leaves it as it was."""
    given = {"type": "update_file", "path": "one", "diff": f"@@\n a\n{LINE * 3000} b\n"}
    code, (failed,) = called(given)
    assert (failed["success"], failed["error"]["code"], failed["written"]) == (False, code, [])
    assert failed["tree"] == BEFORE


def test_a_move(called: Any) -> None:
    """A file that does not fit in its new place with its new content stays in the old one."""
    patch = f"*** Begin Patch\n*** Update File: one\n*** Move to: far/away\n@@\n a\n{LINE * 3000} b\n*** End Patch"
    code, (failed,) = called({"patch": patch})
    assert (failed["success"], failed["error"]["code"]) == (False, code)
    assert failed["tree"] == BEFORE
