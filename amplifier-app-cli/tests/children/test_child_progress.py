"""How children look in a chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.chat.progress import ChildView
from amplifier_app_cli.chat.tool_output import KeptOutputs
from amplifier_app_cli.children.live import LiveTree
from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import columns
from amplifier_foundation.sessions.origin import ChildFacts
from amplifier_kit.engine.usage import UsageRecord

Make = Callable[..., ChildFacts]


def _lively(view: ChildView) -> list[str]:
    """Return the lines without the time at their end."""
    return [line.rpartition(" · ")[0] if line.endswith("s") else line for line in view.live.split("\n")]


def test_a_tree(screen: Callable[..., Any], child: Make) -> None:
    """Several children at once, with children of their own, are a tree with what each does and costs."""
    tree = LiveTree()
    view = ChildView(screen(), tree)
    assert view.live == ""
    for facts in (child("one"), child("two"), child("deep", parent="one", depth=2), child("low", "deep", 3)):
        tree.take(facts, "provider:request", {})
    tree.count("two", UsageRecord.of_usage({"cost_usd": "0.0123"}))
    tree.take(child("two"), "tool:pre", {"tool_name": "bash", "tool_call_id": "1", "tool_input": {"command": "ls"}})
    assert _lively(view) == [
        "├─ one: waits for the model",
        "│  └─ deep: waits for the model",
        "│     └─ low: waits for the model",
        "└─ two: bash ls · $0.0123",
    ]


def test_the_end_stays(screen: Callable[..., Any], child: Make) -> None:
    """The end of each child is a line that stays, moved in by depth, with cost and reason."""
    tree = LiveTree()
    shown = screen()
    ChildView(shown, tree)
    tree.take(child("one"), "session:start", {})
    tree.take(child("deep", parent="one", depth=2), "session:start", {})
    tree.take(child("one"), "delegate:error", {"sub_session_id": "deep", "status": "timeout", "error": {"msg": "late"}})
    tree.count("one", UsageRecord.of_usage({"cost_usd": "0.5"}))
    tree.take(child("one"), "session:end", {"status": "completed"})
    assert [line.rpartition(" · ")[0] for line in shown.shown[:1]] == ["    ✘ deep: timed out"]
    assert shown.shown[1] == "      late"
    tree.clear()
    assert shown.shown[2].startswith("  ✔ one: completed · $0.5000 · ")


_LONG = "amplifier:a-very-long-name-that-fits-nowhere-日本"


@pytest.mark.parametrize("width", [24, 30, 44, 60])
def test_a_long_name_leaves_room(screen: Callable[..., Any], child: Make, width: int) -> None:
    """In a narrow terminal it is the name that is cut, not what a child does, nor how it ended, nor its number."""
    tree = LiveTree()
    shown = screen(width=width)
    view = ChildView(shown, tree)
    for number in range(2):
        tree.take(child(f"s{number}", agent=_LONG), "tool:pre", {"tool_name": "bash", "tool_input": {"command": "ls"}})
    assert all(": bash ls" in line for line in view.live.split("\n"))
    assert "… 2: " in view.live
    tree.clear()
    assert [line.partition(": ")[2][:7] for line in shown.shown] == ["crashed"] * 2


def test_a_name_is_shown_without_its_bundle_where_that_helps(screen: Callable[..., Any], child: Make) -> None:
    """What stands before the colon is the first to go."""
    tree = LiveTree()
    view = ChildView(screen(width=40), tree)
    tree.take(child("one", agent="amplifier:explorer"), "provider:request", {})
    assert _lively(view) == ["└explorer: waits for the model"]


def test_why_it_failed_can_be_read(screen: Callable[..., Any], child: Make) -> None:
    """A long reason takes a few lines, and its end, where the cause stands, is never what is left out."""
    tree = LiveTree()
    shown = screen(width=50)
    ChildView(shown, tree)
    reason = (
        f"The agent 'amplifier:reviewer' failed: the session {'0' * 40} failed: InvalidRequestError: too many words"
    )
    tree.take(child("deep", parent="one", depth=2), "session:start", {})
    tree.take(child("one"), "delegate:error", {"sub_session_id": "deep", "error": {"msg": reason}})
    told = [line.strip() for line in shown.shown[1:]]
    assert 1 < len(told) <= 4
    assert " ".join(told).endswith("InvalidRequestError: too many words")


@pytest.mark.parametrize(
    ("event", "told", "lines"),
    [("delegate:error", {"error": {"msg": "why"}}, 1), ("delegate:agent_completed", {"status": "incomplete"}, 2)],
)
def test_the_reason_is_told_once(
    screen: Callable[..., Any], child: Make, event: str, told: dict[str, Any], lines: int
) -> None:
    """The line of a call that failed tells why; of one that came back with half an answer the child's own line does."""
    tree = LiveTree()
    shown = screen()
    ChildView(shown, tree)
    facts = child("one", call="c1")
    tree.take(facts, "session:start", {})
    tree._on_top(event, {"sub_session_id": "one", "tool_call_id": "c1", "reason": "no budget", **told})
    assert len(shown.shown) == lines


def test_whom_a_child_asked_for_in_vain(screen: Callable[..., Any], child: Make) -> None:
    """An agent that a child did not get is shown below it, once, though no session of it ever was."""
    tree = LiveTree()
    shown = screen()
    ChildView(shown, tree)
    refusal = {"sub_session_id": "", "agent": "nobody", "error": {"msg": "There is no agent 'nobody'"}}
    tree._on_top("delegate:error", refusal)
    assert shown.shown == []
    tree.take(child("one"), "session:start", {})
    tree.take(child("one"), "delegate:error", refusal)
    assert shown.shown == ["    ✘ nobody: refused", "      There is no agent 'nobody'"]


def test_without_a_live_part_there_are_lines(screen: Callable[..., Any], child: Make) -> None:
    """Where nothing can be drawn again, a child's start, its calls and its end are lines."""
    tree = LiveTree()
    shown = screen(draws=False)
    ChildView(shown, tree)
    facts = child("one")
    tree.take(facts, "session:start", {})
    tree.take(facts, "provider:request", {})
    tree.take(facts, "tool:pre", {"tool_name": "bash", "tool_call_id": "1", "tool_input": {"command": "ls"}})
    tree.take(facts, "session:end", {"status": "completed"})
    tree.clear()
    assert shown.shown[:2] == ["  … one: started", "  … one: bash ls"]
    assert shown.shown[2].startswith("  ✔ one: completed · ")
    assert len(shown.shown) == 3


def test_names_cannot_steer_the_terminal(screen: Callable[..., Any], child: Make) -> None:
    """Escape sequences and line ends in names, inputs and reasons are gone."""
    tree = LiveTree()
    shown = screen(draws=False)
    view = ChildView(shown, tree)
    facts = child("x", agent="bad\x1b[2Jname\nsecond")
    tree.take(facts, "tool:pre", {"tool_name": "a\x1b]0;t\x07b", "tool_input": {"command": "c\r\nd\x9b1m"}})
    tree.take(facts, "delegate:error", {"sub_session_id": "x", "error": {"msg": "r\x1b[31m\n\x07"}})
    text = "\n".join([*shown.shown, view.live])
    assert "badname second" in text
    assert not any((ord(character) < 32 and character != "\n") or 127 <= ord(character) < 160 for character in text)


def test_many_children_are_counted(screen: Callable[..., Any], child: Make) -> None:
    """Of very many children the first are shown and the rest counted."""
    tree = LiveTree()
    view = ChildView(screen(), tree)
    for number in range(500):
        tree.take(child(f"s{number}"), "session:start", {})
    lines = view.live.split("\n")
    assert len(lines) == 11
    assert lines[-1] == "… and 490 more"


@given(
    st.integers(8, 120),
    st.lists(st.tuples(st.integers(0, 30), st.text(max_size=30)), max_size=14),
    st.booleans(),
)
def test_every_line_fits(width: int, made: list[tuple[int, str]], draws: bool) -> None:
    """Whatever the names and the depth, no line is wider than the terminal."""
    from amplifier_app_cli.chat.screen import Screen

    class Narrow:
        ink = Ink(False)
        has_live_part = draws

        def __init__(self) -> None:
            self.width, self.shown = width, [""]

        def show(self, text: str) -> None:
            self.shown += text.split("\n")

        def refresh(self) -> None:
            pass

    shown: Any = Narrow()
    screen: Screen = shown
    tree = LiveTree()
    view = ChildView(screen, tree)
    for number, (parent, name) in enumerate(made):
        depth = 1 + min(parent, number)
        facts = ChildFacts(f"s{number}", f"s{parent}" if parent < number else "root", name, depth, None, None)
        tree.take(facts, "tool:pre", {"tool_name": name, "tool_input": {"command": name}})
    lines = view.live.split("\n")
    tree.clear()
    assert all(columns(line) <= width for line in [*lines, *shown.shown])


def test_calls_fold(screen: Callable[..., Any], child: Make) -> None:
    """The calls of a child stay with its end, the first and the last of many, and all of them can be shown."""
    tree, shown, outputs = LiveTree(), screen(), KeptOutputs()
    ChildView(shown, tree, outputs)
    tree.take(child("one"), "session:start", {})
    for number in range(9):
        call = {"tool_name": "bash", "tool_call_id": str(number), "tool_input": {"command": f"make part-{number}"}}
        tree.take(child("one"), "tool:pre", call)
        tree.take(child("one"), "tool:post", {**call, "result": {"success": number != 8}})
    tree.take(child("one"), "session:end", {"status": "completed"})
    tree.clear()
    assert shown.shown[1:] == [
        "    └ ✔ bash make part-0",
        "      ✔ bash make part-1",
        "      … 4 more lines (Ctrl-O shows all)",
        "      ✔ bash make part-6",
        "      ✔ bash make part-7",
        "      ✘ bash make part-8",
    ]
    kept = outputs.at(1)
    assert kept is not None
    assert len(kept.lines) == 9
