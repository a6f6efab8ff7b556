"""A module that asks an approval provider, as the published hooks-approval does, asks the person at the terminal."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ME = pwd.getpwuid(os.getuid()).pw_name
#: As the contract describes it: a gate on tool:pre that denies unless a provider was registered and says yes.
_MODULE = """
from amplifier_core import ApprovalRequest, HookResult


async def mount(coordinator, config=None):
    provider = []
    coordinator.register_capability("approval.register_provider", provider.append)

    async def gate(event, data):
        name = data["tool_name"]
        if name not in ("run", "write_file"):
            return HookResult(action="continue")
        if not provider:
            return HookResult(action="deny", reason="no approval provider is registered")
        await coordinator.hooks.emit(
            "approval:required", {"tool_name": name, "action": f"execute {name}", "risk_level": "high"}
        )
        request = ApprovalRequest(
            tool_name=name, action=f"execute {name}", risk_level="high", details=data["tool_input"]
        )
        response = await provider[-1].request_approval(request)
        decided = "granted" if response.approved else "denied"
        await coordinator.hooks.emit(f"approval:{decided}", {"tool_name": name, "reason": response.reason})
        if response.approved:
            return HookResult(action="continue")
        return HookResult(action="deny", reason=response.reason)

    coordinator.hooks.register("tool:pre", gate, priority=-10, name="approval_hook")
"""
_RUN = """
    turns:
      - tool_calls: [{id: c1, name: run, arguments: {command: make test}}]
      - text: Done.
"""


@pytest.fixture
def gated(project: Path, scripted: Callable[..., str]) -> Callable[..., str]:
    """Return a function that writes a bundle with the module in it, and gives its name."""

    def write(turns: str = _RUN, more: str = "") -> str:
        name = scripted(turns, tools=True)
        package = project / "modules" / "hooks-published" / "amplifier_module_hooks_published"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(_MODULE, encoding="utf-8")
        text = (project / name).read_text(encoding="utf-8")
        entry = "hooks:\n  - {module: hooks-published, source: ./modules/hooks-published}\n"
        (project / name).write_text(text.replace("hooks:\n", entry) + more, encoding="utf-8")
        return name

    return write


def _deciders(folder: Path) -> list[tuple[str, Any, str | None]]:
    """Return what was decided, who asked for it, and who it was."""
    lines = map(json.loads, (folder / "events.jsonl").read_text(encoding="utf-8").splitlines())
    found = [
        (line["event"], line["data"]) for line in lines if line["event"] in ("approval:granted", "approval:denied")
    ]
    return [(event, data.get("source"), data["answered_by"].get("user")) for event, data in found]


def _ran(project: Path) -> str:
    file = project / "ran"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def test_one_prompt_for_one_call(start: Callable[..., Any], gated: Callable[..., str], project: Path) -> None:
    """Module and kernel both want an answer: the person sees the call, is asked once, and is in the log twice."""
    chat = start("--bundle", gated(), "--trust")
    chat.line("go")
    chat.wait_for_question("Allow execute run? run needs approval, risk: high", "tool: run", "make test")
    assert "Allow? [y/n/e/l]" in chat.text  # no rule of a person would spare the module's question
    chat.line("y")
    chat.wait_for_prompt("Done.")
    assert (chat.text.count("→ y"), "Allow process.exec?" in chat.text) == (1, False)
    assert _ran(project) == "make test\n"
    chat.send("\x04")
    assert chat.end() == 0
    assert _deciders(chat.folder) == [("approval:granted", None, _ME), ("approval:granted", "approval_system", _ME)]


@pytest.mark.parametrize("answers", [["n"], ["a", "always", "perhaps"]])
def test_no_clear_yes_is_a_no(
    start: Callable[..., Any], gated: Callable[..., str], project: Path, answers: list[str]
) -> None:
    """With n, and after three answers that are none, nothing runs, and the kernel does not ask again."""
    chat = start("--bundle", gated(), "--trust")
    chat.line("go")
    chat.wait_for_question("Allow execute run?")
    for number, answer in enumerate(answers):
        if number:
            chat.wait_for_question("not an answer", times=number)
        chat.line(answer)
    chat.wait_for_prompt("Done.")
    assert chat.text.count("Allow execute run?") == 1
    assert "Allow process.exec?" not in chat.text
    assert _ran(project) == ""
    chat.send("\x04")
    assert chat.end() == 0
    assert _deciders(chat.folder) == [("approval:denied", None, _ME)]


def test_changed_input_is_asked_about_anew(start: Callable[..., Any], gated: Callable[..., str], project: Path) -> None:
    """With e the call goes its way again with the other input, and is asked about once more."""
    chat = start("--bundle", gated(), "--trust", EDITOR="", VISUAL="")
    chat.line("go")
    chat.wait_for_question("Allow execute run?")
    chat.line("e")
    chat.wait_for("new input, as JSON")
    chat.send("\x15")  # what stands there
    chat.line('{"command": "make docs"}')
    chat.wait_for_question("Allow execute run?", times=2)
    chat.line("y")
    chat.wait_for_prompt("Done.")
    assert _ran(project) == "make docs\n"


def test_agent_is_asked_for_once(
    start: Callable[..., Any], gated: Callable[..., str], project: Path, environment: dict[str, str]
) -> None:
    """The calls of an agent in this process are asked about in the same way, with its name."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: delegate, arguments: {agent: helper, instruction: Help.}}]
          - text: All is done.
        agents:
          helper:
            - tool_calls: [{id: c1, name: run, arguments: {command: make test}}]
            - text: Helped.
    """
    agents = (
        "  - module: tool-delegate\n    config: {settings: {exclude_tools: []}}\n"
        "agents:\n  helper: {description: Helps., instruction: You help.}\n"
    )
    rules = "rules: [{action: session.spawn, verdict: allow}]\n"
    (Path(environment["HOME"]) / ".amplifier" / "policy.yaml").write_text(rules, encoding="utf-8")
    chat = start("--bundle", gated(turns, agents), "--trust")
    chat.line("go")
    chat.wait_for_question('"command": "make test"', "asked by the agent helper (session ")
    chat.line("y")
    chat.wait_for_prompt("All is done.")
    assert (chat.text.count("→ y"), "Allow process.exec?" in chat.text) == (1, False)
    assert _ran(project) == "make test\n"
    chat.send("\x04")
    assert chat.end() == 0


def test_without_a_terminal_the_call_waits(
    amplifier: Callable[..., subprocess.CompletedProcess[str]],
    gated: Callable[..., str],
    project: Path,
    environment: dict[str, str],
) -> None:
    """A run with nobody there ends with 3, as for the kernel's question; one later yes is enough, and then it runs."""
    bundle = f"./{gated()}"
    ended = amplifier("run", "go", "--bundle", bundle, "--trust")
    assert ended.returncode == 3, ended.stderr
    assert "Allow execute run?" in ended.stderr
    assert _ran(project) == ""
    (folder,) = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*")
    assert amplifier("approval", "allow", folder.name).returncode == 0
    (project / "run.yaml").write_text("turns: [{text: And on.}]", encoding="utf-8")
    resumed = amplifier("run", "--resume", folder.name, "--trust")
    assert (resumed.returncode, resumed.stdout) == (0, "And on.\n"), resumed.stderr
    assert _ran(project) == "make test\n"
    assert [user for _, _, user in _deciders(folder)][-2:] == [_ME, _ME]


def test_tool_by_hand(
    at_terminal: Callable[..., Any],
    amplifier: Callable[..., subprocess.CompletedProcess[str]],
    gated: Callable[..., str],
    project: Path,
) -> None:
    """`tool invoke` asks once as well, and runs nothing where nobody can be asked."""
    given = ("tool", "invoke", "run", "command=make", "--bundle", f"./{gated()}", "--trust")
    assert amplifier(*given).returncode != 0
    assert _ran(project) == ""
    child = at_terminal(*given, TERM="dumb")
    child.expect("Allow execute run")
    child.sendline("y")
    child.expect("ran\r\n")
    child.wait()
    assert child.exitstatus == 0
    assert _ran(project) == "make\n"
