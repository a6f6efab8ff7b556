"""Every process of the product is started by `amplifier_kit.guard.processes.launch`: a second way fails here.

What is started elsewhere takes its program, its environment, its folder and its settings from wherever it finds them,
and with them what somebody has planted in a project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
THE_PLACE: Final = "amplifier-kit/amplifier_kit/guard/processes/launch.py"

#: Files that start processes by themselves, and why they may.
EXCEPTIONS: Final = {
    "amplifier-kit/amplifier_kit/guard/processes/supervisor.py": "runs alone, in the sandbox too; becomes the command",
    "amplifier-kit/amplifier_kit/guard/sandbox/mount_check.py": "runs alone, first in the sandbox; becomes the command",
    "amplifier-testing/amplifier_testing/llm/llama.py": "a server for tests, which no session starts",
    "amplifier-app-cli/amplifier_app_cli/ui/streams.py": "becomes itself again, with UTF-8; nothing else is run",
}
#: Folders with programs of their own kind.
EXCEPTED_FOLDERS: Final = {
    "amplifier-digital-twin/": "builds machines out of processes; its engines are to be rebuilt on the kit",
}

#: What creates a process, or has another program do so.
MODULES: Final = frozenset(("multiprocessing", "pty", "webbrowser", "_posixsubprocess", "mcp.client.stdio"))
#: By module: the names, and of all modules but the first also what begins like them.
CALLS: Final = {
    "subprocess": ("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    "os": ("system", "popen", "exec", "spawn", "posix_spawn", "fork", "startfile"),
    "asyncio": ("create_subprocess",),
    "asyncio.subprocess": ("create_subprocess",),
    "click": ("edit", "launch", "echo_via_pager"),
    "concurrent.futures": ("ProcessPoolExecutor",),
    "anyio": ("open_process", "run_process"),
    "mcp": ("stdio_client", "StdioServerParameters"),
    "pydoc": ("pager", "pipepager", "tempfilepager"),
    "shutil": ("which",),  # starts nothing, but finds what was planted: `find_program` does not
}
#: Methods of event loops, whatever the loop is called.
METHODS: Final = frozenset(("subprocess_exec", "subprocess_shell"))


def offences(source: str) -> Iterator[tuple[int, str]]:
    """Yield where a source starts a process, or could, and by what."""
    tree = ast.parse(source)
    known: dict[str, str] = {}  # names in this file, and what they stand for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                known[name.asname or name.name.partition(".")[0]] = (
                    name.name if name.asname else name.name.partition(".")[0]
                )
                if _is_forbidden_module(name.name):
                    yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for name in node.names:
                full = f"{node.module}.{name.name}"
                known[name.asname or name.name] = full
                if _is_forbidden_module(full) or _is_forbidden_module(node.module or "") or _is_forbidden_call(full):
                    yield node.lineno, full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            called = _full_name(node, known)
            if node.attr in METHODS or (called is not None and _is_forbidden_call(called)):
                yield node.lineno, called or node.attr
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("__import__", "getattr")
        ):
            words = [part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if any(word in CALLS["subprocess"] or word in METHODS or _is_forbidden_module(word) for word in words):
                yield node.lineno, f"{node.func.id}({', '.join(map(repr, words))})"


def _is_forbidden_module(name: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in MODULES)


def _is_forbidden_call(full: str) -> bool:
    module, _, name = full.rpartition(".")
    return any(
        name.startswith(beginning) if module != "subprocess" else name == beginning
        for beginning in CALLS.get(module, ())
    )


def _full_name(node: ast.expr, known: dict[str, str]) -> str | None:
    """Return what an expression such as `os.path.join` stands for, by the imports of its file."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        above = _full_name(node.value, known)
        return None if above is None else f"{above}.{node.attr}"
    return None


def _product_sources() -> list[Path]:
    packages = [*ROOT.glob("amplifier-*/amplifier_*"), *ROOT.glob("modules/*/amplifier_module_*")]
    return [path for package in packages for path in sorted(package.rglob("*.py"))]


def _reason(path: str) -> str | None:
    if path == THE_PLACE:
        return "the place"
    return EXCEPTIONS.get(path) or next(
        (reason for folder, reason in EXCEPTED_FOLDERS.items() if path.startswith(folder)), None
    )


def test_no_second_way_to_start_a_process() -> None:
    """No source of the product starts a process, or looks for a program, but by the function that is there for it."""
    sources = _product_sources()
    assert len(sources) > 500
    found = [
        f"{name}:{line}: {what}"
        for path in sources
        if _reason(name := path.relative_to(ROOT).as_posix()) is None
        for line, what in offences(path.read_text(encoding="utf-8"))
    ]
    assert not found, "use open_process of amplifier_kit.guard.processes.launch:\n" + "\n".join(found)


def test_every_exception_is_needed() -> None:
    """A file that is excepted starts a process: an exception that nothing needs would hide the next one."""
    for name in (THE_PLACE, *EXCEPTIONS):
        assert list(offences((ROOT / name).read_text(encoding="utf-8"))), name
    for folder in EXCEPTED_FOLDERS:
        sources = [path for path in _product_sources() if path.relative_to(ROOT).as_posix().startswith(folder)]
        assert any(True for path in sources for _ in offences(path.read_text(encoding="utf-8"))), folder


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(['ls'])",
        "import subprocess as s\ndef f():\n    return s.Popen",
        "from subprocess import check_output",
        "def f():\n    from subprocess import Popen as start",
        "import asyncio\nasync def f():\n    await asyncio.create_subprocess_exec('ls')",
        "from asyncio import create_subprocess_shell",
        "import asyncio.subprocess\nasyncio.subprocess.create_subprocess_exec",
        "async def f(loop):\n    await loop.subprocess_exec(print, 'ls')",
        "import asyncio\nasyncio.get_running_loop().subprocess_shell",
        "import os\nos.system('ls')",
        "import os\nos.popen('ls')",
        "import os as system\nsystem.execve('/bin/ls', [], {})",
        "from os import posix_spawn",
        "import os\nos.spawnlp",
        "import os\nos.fork()",
        "import os\nos.forkpty()",
        "import pty",
        "from pty import spawn",
        "import multiprocessing.pool",
        "from multiprocessing import Process",
        "from concurrent.futures import ProcessPoolExecutor",
        "import webbrowser",
        "import click\nclick.edit('x')",
        "import click\nclick.launch('x')",
        "from click import echo_via_pager",
        "from mcp.client.stdio import stdio_client",
        "from mcp import StdioServerParameters",
        "import anyio\nanyio.run_process",
        "import shutil\nshutil.which('git')",
        "import subprocess\ngetattr(subprocess, 'Popen')",
        "__import__('pty')",
    ],
)
def test_each_way_is_found(source: str) -> None:
    """Whatever starts a process, by whatever name it was imported, is found."""
    assert list(offences(source)), source


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\ndef f(p: subprocess.CompletedProcess[bytes]) -> None: ...",
        "import os\nos.path.exists('x'); os.getpid(); os.environ",
        "import asyncio\nasyncio.subprocess.DEVNULL",
        "from amplifier_kit.guard.processes.launch import open_process\nopen_process",
        "import click\nclick.echo('x')",
        "class Loop:\n    def run(self) -> None: ...\nLoop().run()",
    ],
)
def test_what_starts_nothing_is_not_found(source: str) -> None:
    """Names that only look similar, and what is needed to speak about processes, are nobody's offence."""
    assert not list(offences(source)), source
