"""Sessions that a session starts, as a person sees them in a chat: live, their cost, and their end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.ui.layout import columns

_AGENTS = """\
  - module: tool-delegate
    config: {settings: {exclude_tools: [], timeout: TIMEOUT}}
agents:
  explorer: {description: Looks around., instruction: You look around.}
  helper: {description: Helps., instruction: You help.}
"""
#: Two children at once, of which one has a child of its own that waits for a file.
_FAMILY = """
    turns:
      - tool_calls:
          - {id: c1, name: delegate, arguments: {agent: explorer, instruction: Look around.}}
          - {id: c2, name: delegate, arguments: {agent: helper, instruction: Help now.}}
        usage: {input_tokens: 100, output_tokens: 10, cost_usd: "0.1"}
      - {text: All is done., usage: {input_tokens: 100, output_tokens: 10, cost_usd: "0.1"}}
    agents:
      explorer:
        - tool_calls:
            - {id: c1, name: delegate, arguments: {agent: helper, instruction: Wait.}}
          usage: {input_tokens: 10, output_tokens: 1, cost_usd: "0.02"}
        - {text: Looked., usage: {input_tokens: 10, output_tokens: 1, cost_usd: "0.02"}}
      helper:
        - tool_calls:
            - {id: c9, name: gate, arguments: {}}
          usage: {input_tokens: 1, output_tokens: 1, cost_usd: "0.003"}
        - {text: Helped., usage: {input_tokens: 1, output_tokens: 1, cost_usd: "0.003"}}
"""
#: A tool that spawns an agent and emits no events about it.
_QUIET = """
from amplifier_core import ToolResult


class Quiet:
    name = "quiet"
    description = "Ask an agent."
    action = "test.free"
    input_schema = {"type": "object", "properties": {"agent": {}}}

    def __init__(self, coordinator):
        self._coordinator = coordinator

    async def execute(self, input):
        spawn = self._coordinator.get_capability("session.spawn")
        result = await spawn(agent_name=input["agent"], instruction="Do it.")
        return ToolResult(output=result["output"])


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Quiet(coordinator), name="quiet")
"""


@pytest.fixture
def family(project: Path, environment: dict[str, str], scripted: Callable[..., str]) -> Callable[..., str]:
    """Return a function that writes a bundle whose session starts others, and gives its name."""

    def write(turns: str = _FAMILY, timeout: str = "60") -> str:
        name = scripted(turns, tools=True)
        with open(project / name, "a", encoding="utf-8") as file:
            file.write(_AGENTS.replace("TIMEOUT", timeout))
        rules = "rules: [{action: test.free, verdict: allow}, {action: session.spawn, verdict: allow}]\n"
        (Path(environment["HOME"]) / ".amplifier" / "policy.yaml").write_text(rules, encoding="utf-8")
        return name

    return write


def _lines(chat: Any) -> list[str]:
    return [line.rstrip() for line in chat.text.splitlines()]


def _ends(chat: Any) -> list[str]:
    """Return the lines that tell the ends of children, without the time at their end."""
    found = [line for line in _lines(chat) if line.lstrip().startswith(("✔", "✘")) and ": " in line]
    return [line.rpartition(" · ")[0] for line in found]


def test_children_are_a_tree(start: Callable[..., Any], family: Callable[..., str], project: Path) -> None:
    """While they run, children and their children are a tree with what each does; their ends and costs stay."""
    chat = start("--bundle", family(), "--trust")
    chat.line("go")
    chat.wait_for("├─ explorer: delegate helper", "│  └─ helper 2: gate · $0.0030", "└─ helper: gate · $0.0030")
    assert "├─ explorer: delegate helper · $0.0230" in chat.text
    (project / "go").touch()
    chat.wait_for_prompt("All is done.")
    assert sorted(_ends(chat)) == [
        "    ✔ helper 2: completed · $0.0060",
        "  ✔ explorer: completed · $0.0460",
        "  ✔ helper: completed · $0.0060",
    ]
    assert _lines(chat).count("    └ ✔ gate") == 1
    assert "    └ ✔ delegate helper" in _lines(chat)
    chat.wait_for("224 in · 26 out · $0.2520")  # the turn cost what the tree cost
    assert "├─" not in chat.text
    chat.send("\x04")
    assert chat.end() == 0


def test_stopping_stops_the_children(start: Callable[..., Any], family: Callable[..., str]) -> None:
    """Ctrl-C twice ends the whole tree, and each child tells that it was cancelled."""
    chat = start("--bundle", family(), "--trust")
    chat.line("go")
    chat.wait_for("│  └─ helper 2: gate", "└─ helper: gate")
    chat.send("\x03")
    chat.send("\x03")
    chat.wait_for_prompt("stopped")
    ends = [line.split(" · ")[0].strip() for line in _ends(chat)]
    assert sorted(ends) == ["✘ explorer: cancelled", "✘ helper 2: cancelled", "✘ helper: cancelled"]
    assert "├─" not in chat.text
    chat.send("\x04")
    assert chat.end() == 0


def test_a_child_that_takes_too_long(start: Callable[..., Any], family: Callable[..., str]) -> None:
    """A child that its call did not wait for has timed out, with the reason, and the session goes on."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: delegate, arguments: {agent: helper, instruction: Wait.}}]
          - text: It took too long.
        agents: {helper: [{tool_calls: [{id: c9, name: gate, arguments: {}}]}]}
    """
    chat = start("--bundle", family(turns, timeout="1"), "--trust")
    chat.line("go")
    chat.wait_for_prompt("It took too long.")
    (end,) = [line for line in _lines(chat) if "helper: timed out" in line]
    assert end.startswith("  ✘ ")
    assert "timed out after 1 s" in chat.text
    chat.send("\x04")
    assert chat.end() == 0


def test_a_child_asks(start: Callable[..., Any], family: Callable[..., str], project: Path) -> None:
    """What a child may not do unasked is asked in the chat, and the tree shows who waits for the answer."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: delegate, arguments: {agent: helper, instruction: Run it.}}]
          - text: All is done.
        agents: {helper: [{tool_calls: [{id: c9, name: run, arguments: {command: make all}}]}, {text: Ran.}]}
    """
    chat = start("--bundle", family(turns), "--trust")
    chat.line("go")
    chat.wait_for("Allow? [", "└─ helper: waits for your answer: run make all")
    asked = chat.text.split("Allow process.exec?")[1]
    assert "asked by the agent helper (session 0000000000000000-" in asked
    assert "tool: run" in asked
    assert "tool: delegate" not in asked
    assert "make all" in asked.split("tool: run")[1].split("\n… ")[0]
    assert "Allow? [y/n/a]" in asked  # neither another input, nor to be left to somebody else
    chat.line("y")
    chat.wait_for_prompt("All is done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make all\n"
    assert "  ✔ helper: completed" in chat.text
    chat.send("\x04")
    assert chat.end() == 0


def test_children_that_ask_at_the_same_time(
    start: Callable[..., Any], family: Callable[..., str], project: Path
) -> None:
    """Each question shows the call of the child that puts it, and an answer is for that call alone."""
    turns = """
        turns:
          - tool_calls:
              - {id: c1, name: delegate, arguments: {agent: explorer, instruction: Run one.}}
              - {id: c2, name: delegate, arguments: {agent: helper, instruction: Run two.}}
          - text: All is done.
        agents:
          explorer: [{tool_calls: [{id: c9, name: run, arguments: {command: first}}]}, {text: Ran.}]
          helper: [{tool_calls: [{id: c9, name: run, arguments: {command: second}}]}, {text: Ran.}]
    """
    chat = start("--bundle", family(turns), "--trust")
    chat.line("go")
    answered = ""
    for count in (1, 2):
        chat.wait_for_question("Allow process.exec?", times=count)
        asked = chat.text.split("Allow process.exec?")[count].split("\n… ")[0]
        agent, command = ("explorer", "first") if "agent explorer" in asked else ("helper", "second")
        assert f"agent {agent} (session" in asked
        assert command in asked
        answered += command
        chat.line("y" if command == "second" else "n")
    chat.wait_for_prompt("All is done.")
    assert sorted(answered) == sorted("firstsecond")
    assert (project / "ran").read_text(encoding="utf-8") == "second\n"
    chat.send("\x04")
    assert chat.end() == 0


def _allowed(chat: Any, agent: str, more: str = "") -> str:
    """Allow the command that an agent in another process asks for, let the turn end, and return the question."""
    chat.wait_for("Allow? [", f"└─ {agent}: waits for your answer: run make all{more}")
    asked = str(chat.text.split("Allow process.exec?")[1].split("\n… ")[0])
    chat.line("y")
    chat.wait_for_prompt("All is done.")
    return asked


@pytest.fixture
def quiet(family: Callable[..., str], project: Path) -> Callable[[str], str]:
    """Return a function that writes a bundle with a tool that spawns agents without events."""

    def write(turns: str) -> str:
        package = project / "modules" / "tool-quiet" / "amplifier_module_tool_quiet"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(_QUIET, encoding="utf-8")
        bundle = project / family(turns)
        more = "  - {module: tool-quiet, source: ./modules/tool-quiet}\nagents:\n"
        bundle.write_text(bundle.read_text(encoding="utf-8").replace("agents:\n", more), encoding="utf-8")
        return bundle.name

    return write


def test_children_of_other_tools(start: Callable[..., Any], quiet: Callable[[str], str], project: Path) -> None:
    """A child of any tool is in the tree with its cost, and its approval requests show its calls."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: quiet, arguments: {agent: helper}}]
          - text: All is done.
        agents:
          helper:
            - tool_calls: [{id: c9, name: run, arguments: {command: make all}}]
              usage: {input_tokens: 1, output_tokens: 1, cost_usd: "0.25"}
            - text: Ran.
    """
    chat = start("--bundle", quiet(turns), "--trust")
    chat.line("go")
    asked = _allowed(chat, "helper", " · $0.2500")
    assert "asked by the agent helper (session" in asked
    assert "make all" in asked.split("tool: run")[1]
    assert (project / "ran").read_text(encoding="utf-8") == "make all\n"
    assert "  ✔ helper: completed · $0.2500" in _ends(chat)
    chat.send("\x04")
    assert chat.end() == 0


@pytest.mark.parametrize(("first", "second"), [("delegate", "quiet"), ("quiet", "delegate"), ("quiet", "quiet")])
def test_grandchildren_of_other_tools(
    start: Callable[..., Any], quiet: Callable[[str], str], project: Path, first: str, second: str
) -> None:
    """The approval request of a grandchild shows its own call, whichever tools spawned it."""
    turns = f"""
        turns:
          - tool_calls: [{{id: c1, name: {first}, arguments: {{agent: helper, instruction: Have it run.}}}}]
          - text: All is done.
        agents:
          helper:
            - tool_calls: [{{id: c1, name: {second}, arguments: {{agent: explorer, instruction: Run it.}}}}]
            - text: It ran.
          explorer:
            - tool_calls: [{{id: c1, name: run, arguments: {{command: make all}}}}]
            - text: Ran.
    """
    chat = start("--bundle", quiet(turns), "--trust")
    chat.line("go")
    asked = _allowed(chat, "explorer")
    assert "asked by the agent explorer (session" in asked
    assert "make all" in asked.split("tool: run")[1]
    assert "helper" not in asked
    assert (project / "ran").read_text(encoding="utf-8") == "make all\n"
    assert [end.split(" · ")[0] for end in _ends(chat)] == ["    ✔ explorer: completed", "  ✔ helper: completed"]
    chat.send("\x04")
    assert chat.end() == 0


def test_stopping_stops_children_of_other_tools(
    start: Callable[..., Any], quiet: Callable[[str], str], project: Path
) -> None:
    """Ctrl-C twice ends a grandchild, and the chat continues."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: quiet, arguments: {agent: helper}}]
          - text: All is done.
        agents:
          helper: [{tool_calls: [{id: c1, name: quiet, arguments: {agent: explorer}}]}]
          explorer: [{tool_calls: [{id: c1, name: gate, arguments: {}}]}]
    """
    chat = start("--bundle", quiet(turns), "--trust")
    chat.line("go")
    chat.wait_for("└─ helper: quiet explorer", "   └─ explorer: gate")
    chat.send("\x03")
    chat.send("\x03")
    chat.wait_for_prompt("stopped")
    ends = [line.split(" · ")[0].strip() for line in _ends(chat)]
    assert ends == ["✘ explorer: cancelled", "✘ helper: cancelled"]
    chat.send("\x04")
    assert chat.end() == 0


@pytest.mark.parametrize("width", [24, 40])
def test_narrow_terminals(start: Callable[..., Any], family: Callable[..., str], project: Path, width: int) -> None:
    """On a narrow terminal branches are thin, and no line of the tree is broken."""
    chat = start("--bundle", family(), "--trust", columns=width, is_ready=False)
    chat.wait_for_prompt("leaves.")
    chat.line("go")
    chat.wait_for("├explorer: ", "│└helper 2: ", "└helper: gate")
    assert all(columns(line) <= width for line in _lines(chat))
    (project / "go").touch()
    chat.wait_for_prompt("All is done.")
    assert len([line for line in _lines(chat) if line.lstrip().startswith("✔") and "completed" in line]) == 3
    chat.send("\x04")
    assert chat.end() == 0


def test_a_terminal_that_cannot_draw(start: Callable[..., Any], family: Callable[..., str], project: Path) -> None:
    """With TERM=dumb there are lines for what children begin and how they end, and no escape sequence."""
    (project / "go").touch()
    chat = start("--bundle", family(), "--trust", TERM="dumb")
    chat.line("go")
    chat.wait_for_prompt("All is done.")
    shown = _lines(chat)
    for line in ("  … explorer: started", "  … helper: started", "    … helper 2: started", "  … helper: gate"):
        assert line in shown
    assert "    ✔ helper 2: completed · $0.0060" in _ends(chat)
    chat.send("exit\n")
    assert chat.end() == 0
    assert "\x1b" not in chat.raw


def test_no_terminal_at_all(
    piped: Callable[..., subprocess.CompletedProcess[str]], family: Callable[..., str], project: Path
) -> None:
    """Without a terminal, answers are on standard output, and the lines of children on standard error."""
    (project / "go").touch()
    result = piped("--bundle", family(), "--trust", stdin="go\n")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "All is done."
    assert "\n  … explorer: started\n" in result.stderr
    assert "\n  ✔ explorer: completed · $0.0460 · " in result.stderr
    assert "\x1b" not in result.stdout + result.stderr
