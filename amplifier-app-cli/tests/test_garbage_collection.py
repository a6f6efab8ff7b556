"""The garbage collector, out of the way while the program starts."""

import atexit
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from amplifier_app_cli.event_loop import pause_garbage_collection, resume_garbage_collection


def test_collecting_starts_again() -> None:
    """Nothing is collected in between; afterwards new garbage is, and what was there before is left alone."""
    try:
        pause_garbage_collection()
        assert not gc.isenabled()
        resume_garbage_collection()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
        atexit.unregister(gc.freeze)


_HOOK = """
import gc
from pathlib import Path


async def mount(coordinator, config=None):
    def look(event, data):
        Path("collecting").write_text(str(gc.isenabled()), encoding="utf-8")

    coordinator.hooks.register("prompt:submit", look, name="look")
"""


@pytest.fixture
def looking(project: Path) -> str:
    """Return a bundle whose hook writes down, in every turn, whether garbage is collected."""
    package = project / "modules" / "hooks-look" / "amplifier_module_hooks_look"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_HOOK, encoding="utf-8")
    bundle = {
        "bundle": {"name": "looking"},
        "includes": [{"bundle": "minimal"}],
        "hooks": [{"module": "hooks-look", "source": "./modules/hooks-look"}],
    }
    (project / "bundle.yaml").write_text(json.dumps(bundle), encoding="utf-8")
    return "./bundle.yaml"


def test_garbage_is_collected_in_a_run(amplifier: Callable[..., Any], project: Path, looking: str) -> None:
    """A turn may take hours: by then the collector works again."""
    result = amplifier("run", "--trust", "--bundle", looking, "hello")
    assert result.returncode == 0, result.stderr
    assert (project / "collecting").read_text(encoding="utf-8") == "True"


def test_garbage_is_collected_in_a_chat(at_terminal: Callable[..., Any], project: Path, looking: str) -> None:
    """A chat may be open for days: its garbage is collected."""
    child = at_terminal("run", "--mode", "chat", "--trust", "--bundle", looking, "hello", TERM="dumb")
    child.expect("This is a scripted answer")
    child.expect("\r\n> ")
    child.sendline("exit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert (project / "collecting").read_text(encoding="utf-8") == "True"
