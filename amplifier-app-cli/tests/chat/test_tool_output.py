"""What tools print: a few lines at once, all of it on a key, and failures that look like failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.chat.progress import ToolProgress
from amplifier_app_cli.chat.tool_output import KeptOutputs, output_of
from amplifier_app_cli.ui.colour import Ink
from amplifier_core.testing import MockCoordinator


class _Screen:
    width = 60
    has_live_part = True

    def __init__(self, ink: Ink) -> None:
        self.ink = ink
        self.shown: list[str] = []

    def show(self, text: str) -> None:
        self.shown.append(text)

    def refresh(self) -> None:
        """Draw nothing."""


def _progress(*, is_styled: bool = False, changes: Callable[[str, Any], list[str]] | None = None) -> Any:
    screen, coordinator = _Screen(Ink(is_styled)), MockCoordinator()
    more = {} if changes is None else {"changes": changes}
    progress = ToolProgress(screen, lambda value: value, **more)  # type: ignore[arg-type]
    progress.connect(coordinator.hooks)
    return progress, screen, coordinator.hooks


def _call(**more: Any) -> dict[str, Any]:
    return {"tool_name": "bash", "tool_call_id": "c1", "tool_input": {"command": "make test"}, **more}


def test_what_a_tool_warns_of_does_not_steer_the_terminal() -> None:
    """The warning of a tool that writes is shown on one line, without escapes."""
    output = output_of("✔ write_file", {"output": {"bytes_written": 4, "warning": "\x1b]0;title\x07\x1b[2Jodd\nname"}})
    assert output.folded(60) == ["4 bytes written; odd name"]


def test_long_output_is_folded() -> None:
    """The first and the last lines are shown, with how many are missing and the key that shows them."""
    output = output_of("✔ bash", {"output": {"stdout": "\n".join(map(str, range(100))), "stderr": "", "returncode": 0}})
    assert output.folded(60, key="Ctrl-O shows all") == [
        "0",
        "1",
        "… 95 more lines (Ctrl-O shows all)",
        "97",
        "98",
        "99",
    ]
    assert len(output.lines) == 100


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ({"output": {"response": "In test_pages.py.", "metadata": {"turns": 1}}}, ("In test_pages.py.",)),
        ({"output": "one\ntwo"}, ("one", "two")),
        ({"output": {"stdout": "out\n", "stderr": "err\n", "returncode": 1}}, ("out", "err")),
        ({"output": {"content": "from a server"}}, ("from a server",)),
        ({"output": {"count": 2, "status": "created"}}, ("count: 2", "status: created")),
        ({"output": None}, ()),
        ({"output": "no such file", "error": {"message": "no such file"}, "success": False}, ()),
        ({"output": "\x1b[2J\x1b]0;title\x07safe"}, ("safe",)),
    ],
)
def test_text_of_an_output(result: dict[str, Any], lines: tuple[str, ...]) -> None:
    """Whatever form a tool gives its output, what it says is shown, once, and never steers the terminal."""
    assert output_of("", result).lines == lines


def test_lines_that_were_read_are_counted() -> None:
    """The content of a file that was read is a number of lines until it is asked for."""
    output = output_of("", {"output": {"content": "a\nb", "lines_read": 2, "total_lines": 2000}})
    assert output.folded(60) == ["2 lines of 2,000"]
    assert output.lines == ("a", "b")


def test_outputs_are_shown_from_the_last_one_back() -> None:
    """Each further time shows the output before; a new output starts again with itself."""
    kept = KeptOutputs()
    for title in ("first", "second"):
        kept.add(output_of(title, {"output": title}))
    assert [found.title if (found := kept.next()) else None for _ in range(3)] == ["second", "first", None]
    kept.add(output_of("third", {"output": ""}))
    found = kept.next()
    assert found is not None
    assert found.title == "third"


async def test_failure_is_marked_and_has_its_reason() -> None:
    """A failed call is red, with a cross, its reason and the end of its output."""
    _, screen, hooks = _progress(is_styled=True)
    await hooks.emit("tool:pre", _call())
    error = {"message": "Command failed with exit code 1.", "code": "exit_code"}
    output = {"stdout": "", "stderr": "AssertionError: 2 != 3\n", "returncode": 1}
    await hooks.emit("tool:post", _call(result={"success": False, "output": output, "error": error}))
    head, reason, last = screen.shown[0].split("\n")
    assert head.startswith("\x1b[31m✘ bash make test")
    assert "\x1b[31mCommand failed with exit code 1." in reason
    assert "AssertionError: 2 != 3" in last


async def test_denial_by_the_user_says_why() -> None:
    """A call that was denied is not called an error of the tool, and has the user's words."""
    _, screen, hooks = _progress()
    for answer, shown in (("Deny", "denied"), ("Deny: use make", "denied: use make")):
        await hooks.emit("tool:error", _call(status="denied", error={"msg": f"not approved: {answer}"}))
        assert screen.shown[-1].split("\n")[1].strip(" └") == shown


async def test_change_that_no_question_showed() -> None:
    """An edit that a rule allows is shown as a diff below its call; one that was asked about is not shown again."""
    diff = ["--- a/pages.py", "+++ b/pages.py", "@@ -1 +1 @@", "-old", "+new"]
    _, screen, hooks = _progress(changes=lambda name, tool_input: diff)
    result = {"success": True, "output": {"bytes_written": 4}}
    await hooks.emit("tool:pre", _call())
    await hooks.emit("approval:granted", {"details": _call()})
    await hooks.emit("tool:post", _call(result=result))
    assert [line.strip(" └") for line in screen.shown[-1].split("\n")[1:]] == ["@@ -1 +1 @@", "-old", "+new"]
    await hooks.emit("tool:pre", _call())
    await hooks.emit("approval:required", {"details": {"tool_call_id": "c1"}})
    await hooks.emit("approval:granted", {"details": _call()})
    await hooks.emit("tool:post", _call(result=result))
    assert [line.strip(" └") for line in screen.shown[-1].split("\n")[1:]] == ["4 bytes written"]


async def test_no_file_is_read_before_the_rules_allow_it() -> None:
    """A diff reads the file that a call names, but not that of a denied one, and secrets in it are masked."""
    read: list[Any] = []

    def changes(name: str, tool_input: Any) -> list[str]:
        read.append(tool_input)
        return ["-key: hunter2", "+key:"]

    screen, coordinator = _Screen(Ink(False)), MockCoordinator()
    hide = lambda value: value.replace("hunter2", "[masked]") if isinstance(value, str) else value  # noqa: E731
    ToolProgress(screen, hide, changes).connect(coordinator.hooks)  # type: ignore[arg-type]
    await coordinator.hooks.emit("tool:pre", _call())
    await coordinator.hooks.emit("tool:error", _call(status="denied", error={"msg": "no rule covers it"}))
    assert read == []
    await coordinator.hooks.emit("tool:pre", _call())
    await coordinator.hooks.emit("approval:granted", {"details": _call()})
    await coordinator.hooks.emit("tool:post", _call(result={"success": True, "output": {"bytes_written": 4}}))
    assert read == [{"command": "make test"}]
    assert "[masked]" in screen.shown[-1]
    assert "hunter2" not in screen.shown[-1]


async def test_running_command_shows_its_last_line() -> None:
    """A long command is seen at work: the line that it printed last stands below it."""
    progress, _screen, hooks = _progress()
    await hooks.emit("tool:pre", _call())
    await hooks.emit("tool:progress", {"tool_name": "bash", "tool_call_id": "c1", "last_line": "\x1b[1mtest 3 of 9"})
    assert progress.live.split("\n")[1].strip(" └") == "test 3 of 9"


async def test_secrets_are_masked_in_outputs() -> None:
    """What is masked in the log is masked on the screen, also in what Ctrl-O shows."""
    screen, coordinator = _Screen(Ink(False)), MockCoordinator()
    masked = {"success": True, "output": "key: [masked]"}
    progress = ToolProgress(screen, lambda value: masked if isinstance(value, dict) and "output" in value else value)  # type: ignore[arg-type]
    progress.connect(coordinator.hooks)
    await coordinator.hooks.emit("tool:post", _call(result={"success": True, "output": "key: hunter2"}))
    assert "hunter2" not in screen.shown[0]
    output = progress.outputs.at(1)
    assert output is not None
    assert output.lines == ("key: [masked]",)


def test_output_is_expanded_by_a_key(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """In a chat the output is folded, Ctrl-O shows all of it, `/output 2` the one before, and the chat goes on."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: read_file, arguments: {file_path: notes.txt}}]
          - tool_calls: [{id: c2, name: grep_all, arguments: {}}]
          - text: Done.
    """
    (project / "notes.txt").write_text("first line\nsecond line\n", encoding="utf-8")
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    chat.line("go")
    chat.wait_for_prompt("Done.")
    assert "second line" not in chat.text
    assert "2 lines" in chat.text
    chat.line("/output 2")
    chat.wait_for("second line")
    chat.send("\x0f")
    chat.wait_for_prompt("✘ grep_all")
    chat.send("\x04")
    assert chat.end() == 0
