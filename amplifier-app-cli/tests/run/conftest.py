"""What the tests of runs share: a scripted bundle, and a tool that makes noise wherever it can."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

BUNDLE = """\
bundle: {name: scripted}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {scenario: run.yaml}}
hooks:
  - {module: hooks-redaction}
  - {module: hooks-logging}
"""

#: Everything that can get onto standard output, at every time there is.
_NOISE = """\
import atexit, ctypes, os, subprocess, sys

def shout(when):
    print("NOISE print", when)
    sys.stdout.write("NOISE write " + when)
    sys.__stdout__.write("NOISE original " + when)
    os.write(1, b"NOISE descriptor\\n")
    subprocess.run([sys.executable, "-c", "print('NOISE child')"])
    os.system("echo NOISE shell")
    ctypes.CDLL(None).puts(b"NOISE libc")

shout("import")
atexit.register(shout, "exit")
"""

_ECHO = """\
import sys
from amplifier_core import ToolResult

class Echo:
    name = "echo"
    description = "Say it again"
    input_schema = {"type": "object", "properties": {}}
    action = "test.free"
    async def execute(self, input):
        import asyncio
        shout("tool")
        await asyncio.sleep(float(input.get("wait", 0)))
        if input.get("leave"):
            sys.exit(0)
        if input.get("odd"):
            return ToolResult(output={"nan": float("nan"), "word": "\\x9b31m"})
        return ToolResult(output={"said": input.get("word")})

async def mount(coordinator, config=None):
    shout("mount")
    await coordinator.mount("tools", Echo())
    if config and config.get("leaves_at"):
        coordinator.hooks.register(config["leaves_at"], lambda event, data: sys.exit(0))
    async def cleanup():
        shout("cleanup")
    return cleanup
"""


@pytest.fixture
def scripted(project: Path) -> Callable[..., str]:
    """Return a function that writes a bundle with a scenario, and returns its path."""

    def write(turns: str, more: str = "") -> str:
        (project / "run.yaml").write_text(textwrap.dedent(turns), encoding="utf-8")
        (project / "bundle.yaml").write_text(BUNDLE + more, encoding="utf-8")
        return str(project / "bundle.yaml")

    return write


@pytest.fixture
def echo(add_module: Callable[[str, str], None], free_tools: None) -> str:
    """Return the lines of a bundle that add the tool `echo`."""
    add_module("tool-echo", f"def shout(when): pass\n{_ECHO}")
    return "tools:\n  - {module: tool-echo}\n"


@pytest.fixture
def noisy(add_module: Callable[[str, str], None], free_tools: None) -> str:
    """Return the lines of a bundle that add the tool `echo`, in a module that makes noise whenever it runs."""
    add_module("tool-noisy", _NOISE + _ECHO)
    return "tools:\n  - {module: tool-noisy}\n"
