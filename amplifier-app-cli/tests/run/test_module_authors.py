"""What the author of a module reads when it fails: each failure once, with its place, its reason and how to fix it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Scripted = Callable[..., str]

#: The minimal tool of the module guide.
TOOL = """\
from amplifier_core import ToolResult

class WordsTool:
    name = "count_words"
    description = "Count words"
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    action = "test.free"
    async def execute(self, input_data):
        return ToolResult(success=True, output=len(input_data["text"].split()))

async def mount(coordinator, config=None):
    tool = WordsTool()
    await coordinator.mount("tools", tool, name=tool.name)
    return {"name": "tool-words", "version": "0.1.0", "provides": ["count_words"]}
"""
MOUNTS = '    await coordinator.mount("tools", tool, name=tool.name)\n'
TURNS = """
turns:
  - tool_calls: [{name: count_words, arguments: {text: a b c}}]
  - text: Done.
"""


@pytest.fixture
def author(amplifier: Amplifier, scripted: Scripted, project: Path, free_tools: None) -> Callable[..., Any]:
    """Return a function that runs a bundle with a module of that code, as its author would."""

    def run(name: str, code: str, *options: str, turns: str = TURNS) -> subprocess.CompletedProcess[str]:
        package = project / name / f"amplifier_module_{name.replace('-', '_')}"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(code, encoding="utf-8")
        kind = "tools" if name.startswith("tool-") else "hooks"
        entry = f"  - {{module: {name}, source: ./{name}}}\n"
        bundle = scripted(turns, entry if kind == "hooks" else f"tools:\n{entry}")
        return amplifier("run", "count", "--bundle", bundle, "--trust", *options)

    return run


def _log(project: Path, home: Path) -> list[dict[str, Any]]:
    [file] = home.glob(".amplifier/projects/*/sessions/*/events.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("code", "reason", "line", "fix"),
    [
        (
            TOOL.replace(MOUNTS, "").replace('    return {"name', '    return None and {"name'),
            "protocol_compliance: No tool was mounted and mount() did not return a Tool instance",
            None,
            'call `await coordinator.mount("tools", tool, name=tool.name)` in mount(), or return the tool',
        ),
        (
            TOOL.replace("tool = WordsTool()", "raise ValueError('no index found')"),
            "no index found",
            12,
            "correct the code there",
        ),
        (TOOL.replace("tool = WordsTool()", "tool = {}['words']"), "KeyError: 'words'", 12, "correct the code there"),
        (
            "import absent_package\n" + TOOL,
            "module_importable: Failed to import module: No module named 'absent_package'",
            1,
            "add what provides 'absent_package' to `dependencies`",
        ),
        (TOOL.replace("class WordsTool:", "class WordsTool("), "module_importable: ", 3, "correct the code there"),
        (
            TOOL.replace("async def mount", "def mount").replace("await coordinator", "coordinator"),
            "mount_signature: mount() should be async",
            None,
            "write `async def mount(coordinator, config=None)`",
        ),
        (TOOL.replace("async def mount", "async def mnt"), "mount_exists: ", None, "define `async def mount("),
        (
            TOOL.replace("async def execute", "async def run"),
            "protocol_compliance: Tool 'count_words' does not implement Tool interface",
            None,
            "write what is missing; `amplifier module validate ",
        ),
        (
            TOOL.replace("async def execute", "def execute"),
            "tool_execute: Tool.execute() should be async",
            None,
            "write `async def execute(self, input)`",
        ),
    ],
)
def test_a_module_that_cannot_be_used(
    author: Callable[..., Any], project: Path, code: str, reason: str, line: int | None, fix: str
) -> None:
    """Its failure is printed once: the reason first, then its path, then the fix."""
    result = author("tool-words", code)
    assert result.returncode == 6
    said = result.stderr.splitlines()
    place = next(number for number, text in enumerate(said) if text.startswith(f"  - tool 'tool-words': {reason}"))
    assert result.stderr.count("tool 'tool-words'") == 1
    package = project / "tool-words" / "amplifier_module_tool_words"
    if line is not None:
        assert said[place + 1] == f"    in {package / '__init__.py'}:{line}"
    else:
        assert said[place + 1] in (f"    in {package.parent}", f"    in {package}")
    assert fix in said[place + 2]
    assert "Traceback" not in result.stderr


def test_the_own_lines_are_shown_with_verbose_and_the_traceback_is_in_the_log(
    author: Callable[..., Any], project: Path, tmp_path: Path
) -> None:
    """With -v the last lines of the module's own code are on standard error; the log has the whole traceback."""
    result = author("tool-words", TOOL.replace("tool = WordsTool()", "raise ValueError('no index')"), "-v")
    assert result.returncode == 6
    assert "raise ValueError('no index')" in result.stderr
    assert "amplifier_core" not in result.stderr.partition("modules could not be loaded")[2]
    [entry] = [one for one in _log(project, tmp_path / "home") if one.get("error", {}).get("traceback")]
    assert entry["error"]["type"] == "ValueError"
    assert entry["error"]["traceback"].startswith("Traceback (most recent call last):")
    assert "raise ValueError('no index')" in entry["error"]["traceback"]


@pytest.mark.parametrize("options", [(), ("-v",)])
def test_a_tool_that_raises(author: Callable[..., Any], project: Path, tmp_path: Path, options: tuple[str]) -> None:
    """The exception is one line with its place, the lines come with -v, and the log has the whole traceback."""
    code = TOOL.replace('input_data["text"]', 'input_data["txt"]')
    result = author("tool-words", code, *options)
    assert (result.returncode, result.stdout) == (0, "Done.\n")
    file = project / "tool-words" / "amplifier_module_tool_words" / "__init__.py"
    assert f"amplifier: Tool 'count_words' raised KeyError: 'txt' ({file}:9)" in result.stderr.splitlines()
    assert ('len(input_data["txt"].split())' in result.stderr) == bool(options)
    entries = [one for one in _log(project, tmp_path / "home") if one["event"] == "log:entry"]
    assert 'len(input_data["txt"].split())' in entries[0]["error"]["traceback"]


def test_a_module_that_may_be_missing(author: Callable[..., Any]) -> None:
    """With --allow-missing-modules the session runs, and the module is named once, with place and fix."""
    code = TOOL.replace("tool = WordsTool()", "raise ValueError('no index')")
    result = author("tool-words", code, "--allow-missing-modules", turns="turns: [{text: Sure.}]")
    assert (result.returncode, result.stdout) == (0, "Sure.\n")
    assert result.stderr.count("tool-words'") == 1
    assert "amplifier: Running without tool 'tool-words': no index" in result.stderr
    assert "fix: correct the code there" in result.stderr


HOOK = """\
async def mount(coordinator, config=None):
    pass

{}def on_session_ready(coordinator):
    1 / 0
"""


@pytest.mark.parametrize(
    ("is_async", "said"),
    [
        (False, "Module 'hooks-greet' defines on_session_ready() as sync — must be async. Skipping."),
        (True, "on_session_ready for 'hooks-greet' raised: division by zero"),
    ],
)
def test_a_wrong_on_session_ready(author: Callable[..., Any], project: Path, is_async: bool, said: str) -> None:
    """One that is sync or raises is a warning with its place, and the session runs."""
    code = HOOK.format("async " if is_async else "")
    result = author("hooks-greet", code, turns="turns: [{text: Sure.}]")
    assert (result.returncode, result.stdout) == (0, "Sure.\n")
    file = project / "hooks-greet" / "amplifier_module_hooks_greet" / "__init__.py"
    [line] = [line for line in result.stderr.splitlines() if said in line]
    assert re.search(rf"\({re.escape(str(file))}(:5)?\)$", line)


def test_a_handler_that_raises(author: Callable[..., Any], project: Path) -> None:
    """It is one line with the event, the handler and the place of the fault."""
    code = (
        "async def mount(coordinator, config=None):\n"
        "    async def greet(event, data):\n"
        "        return data['absent']\n"
        "    coordinator.hooks.register('prompt:submit', greet, name='greet')\n"
    )
    result = author("hooks-greet", code, turns="turns: [{text: Sure.}]")
    assert result.stdout == "Sure.\n"
    said = "amplifier: Hook handler error for event 'prompt:submit' (handler 'greet'): 'absent'"
    assert f"{said} ({project / 'hooks-greet'}/amplifier_module_hooks_greet/__init__.py:3)" in result.stderr


#: Modules whose code fails in the middle of a turn, by the key that names them in the bundle.
FAULTY = {
    "provider": """\
class Provider:
    name = "faulty"
    def get_info(self):
        from amplifier_core import ProviderInfo
        return ProviderInfo(id="faulty", display_name="Faulty")
    async def list_models(self): return []
    async def complete(self, request, **options):
        return {}["absent"]
    def parse_tool_calls(self, response): return []

async def mount(coordinator, config=None):
    await coordinator.mount("providers", Provider(), name="faulty")
""",
    "loop": """\
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, **more):
        return {}["absent"]

async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Loop())
""",
}


@pytest.mark.parametrize("options", [(), ("-v",)])
@pytest.mark.parametrize("kind", FAULTY)
def test_a_provider_or_loop_that_raises(
    amplifier: Amplifier, project: Path, tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    """The turn fails with one line that names the place, the lines come with -v, the log has the traceback."""
    code = FAULTY[kind]
    package = project / f"{kind}-faulty" / f"amplifier_module_{kind}_faulty"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code, encoding="utf-8")
    entries = {"provider": "{module: provider-mock}", "loop": "{module: loop-basic}"}
    entries[kind] = f"{{module: {kind}-faulty, source: ./{kind}-faulty}}"
    (project / "bundle.yaml").write_text(
        "bundle: {name: faulty, version: 1.0.0}\nincludes: [{bundle: 'amplifier:behaviors/logging'}]\n"
        f"session: {{orchestrator: {entries['loop']}, context: {{module: context-simple}}}}\n"
        f"providers: [{entries['provider']}]\n",
        encoding="utf-8",
    )
    result = amplifier("run", "go", "--bundle", ".", "--trust", *options)
    assert result.returncode == 1
    place = f"{package / '__init__.py'}:{code[: code.index('absent')].count(chr(10)) + 1}"
    assert result.stderr.count(f"amplifier: KeyError: 'absent' ({place}; the log has the whole traceback)") == 1
    assert ('return {}["absent"]' in result.stderr) == bool(options)
    [entry] = [one for one in _log(project, tmp_path / "home") if one["event"] == "log:entry"]
    assert entry["data"]["message"] == f"The turn failed in {place}"
    assert "KeyError" in str(entry["error"])


@pytest.mark.parametrize(
    "line", ["import sys; sys.exit(0)\n", "async def mount(coordinator, config): raise SystemExit(0)\n"]
)
def test_a_module_that_ends_the_program(author: Callable[..., Any], project: Path, line: str) -> None:
    """Its exit code is not that of the run, and the line that did it is named."""
    result = author("tool-words", line)
    assert result.returncode == 1
    file = project / "tool-words" / "amplifier_module_tool_words" / "__init__.py"
    assert f"a module tried to end the program with exit code 0 ({file}:1)" in result.stderr


@pytest.mark.parametrize(("kind", "near"), [("context", "context-simple"), ("orchestrator", "loop-basic")])
def test_a_misspelled_loop_or_context(amplifier: Amplifier, project: Path, kind: str, near: str) -> None:
    """It is named as every other module, with the nearest one."""
    session = {"orchestrator": "{module: loop-basic}", "context": "{module: context-simple}"}
    session[kind] = f"{{module: {near}x}}"
    text = ", ".join(f"{name}: {entry}" for name, entry in session.items())
    (project / "bundle.yaml").write_text(
        f"bundle: {{name: b, version: 1.0.0}}\nsession: {{{text}}}\nproviders: [{{module: provider-mock}}]\n", "utf-8"
    )
    result = amplifier("run", "go", "--bundle", ".")
    assert result.returncode == 6
    assert f"  - {kind} '{near}x': Module '{near}x' not found" in result.stderr
    assert f"Did you mean '{near}'?" in result.stderr


def test_a_misspelled_module(amplifier: Amplifier, scripted: Scripted) -> None:
    """A module id that is not installed names the nearest one that is."""
    result = amplifier("run", "go", "--bundle", scripted(TURNS, "tools:\n  - {module: tool-bsh}\n"))
    assert result.returncode == 6
    assert "  - tool 'tool-bsh': Module 'tool-bsh' not found" in result.stderr
    assert "Did you mean 'tool-bash'?" in result.stderr


def test_a_wrong_input_is_the_models_to_correct(author: Callable[..., Any], project: Path, tmp_path: Path) -> None:
    """The tool does not run; the model reads which part of its input is wrong."""
    turns = """
    turns:
      - tool_calls: [{name: count_words, arguments: {text: 5}}]
      - expect: {last_role: tool, contains: ["at $.text: 5 is not of type 'string'"]}
        tool_calls: [{name: count_words, arguments: {text: five}}]
      - expect: {last_role: tool, contains: ["1"]}
        text: Done.
    """
    result = author("tool-words", TOOL, turns=turns)
    assert (result.returncode, result.stdout) == (0, "Done.\n"), result.stderr


@pytest.mark.parametrize("where", ["mount", "execute"])
@pytest.mark.parametrize("options", [(), ("-v", "--output-format", "json")])
def test_secrets_in_errors_are_masked(
    author: Callable[..., Any], environment: dict[str, str], where: str, options: tuple[str, ...]
) -> None:
    """What a module raises may quote a key; neither standard error, which CI keeps, nor the result has it."""
    environment["SERVICE_API_KEY"] = "k7Qm2xWv9RtZ4pLs8NbY"
    fault = "raise ValueError('refused: ' + __import__('os').environ['SERVICE_API_KEY'])"
    changed = {
        "mount": ("tool = WordsTool()", fault),
        "execute": ("return ToolResult(", f"{fault}\n        ToolResult("),
    }
    result = author("tool-words", TOOL.replace(*changed[where]), *options)
    assert "refused: " in result.stderr
    assert environment["SERVICE_API_KEY"] not in result.stderr + result.stdout
