"""What is known of children while they run."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.children.endings import Ending
from amplifier_app_cli.children.live import LiveChild, LiveTree
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.sessions.origin import ChildFacts
from amplifier_kit.engine.usage import UsageRecord

Make = Callable[..., ChildFacts]


class Kept:
    """Keep what is told."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[tuple[str, str]] = []

    def on_start(self, child: LiveChild) -> None:
        """Keep the name."""
        self.started.append(child.name)

    def on_change(self, child: LiveChild, event: str) -> None:
        """Keep nothing."""

    def on_end(self, child: LiveChild) -> None:
        """Keep name and end."""
        self.ended.append((child.name, child.ending.word))

    def on_rejection(self, asker: LiveChild, agent: str, ending: Ending) -> None:
        """Keep who was asked for in vain."""
        self.ended.append((agent, "refused"))


def _tree() -> tuple[LiveTree, Kept, MockCoordinator]:
    tree, kept, coordinator = LiveTree(), Kept(), MockCoordinator()
    tree.watchers.append(kept)
    tree.connect(coordinator.hooks)
    return tree, kept, coordinator


def _used(cost: str | None = "0.5") -> UsageRecord:
    return UsageRecord.of_usage({"input_tokens": 3, "output_tokens": 1, "cost_usd": cost})


def test_what_a_child_does(child: Make) -> None:
    """A child waits for the model, runs a tool, several at once, waits for a person, and goes on."""
    tree, _, _ = _tree()
    facts = child("explorer")

    def doing() -> str:
        return tree.running()[0].doing

    tree.take(facts, "session:start", {})
    assert doing() == "starts"
    tree.take(facts, "provider:request", {})
    assert doing() == "waits for the model"
    tree.take(facts, "llm:response", {})
    tree.take(facts, "tool:pre", {"tool_name": "read_file", "tool_call_id": "1", "tool_input": {"file_path": "a.py"}})
    assert doing() == "read_file a.py"
    tree.take(facts, "tool:pre", {"tool_name": "bash", "tool_call_id": "2", "tool_input": {"command": "make"}})
    assert doing() == "bash (and 1 more) make"
    tree.take(facts, "approval:required", {})
    assert doing() == "waits for your answer: bash (and 1 more) make"
    tree.take(facts, "approval:granted", {})
    tree.take(facts, "tool:post", {"tool_call_id": "2"})
    assert doing() == "read_file a.py"
    tree.take(facts, "tool:error", {"tool_call_id": "1"})
    assert doing() == "continues"


async def test_the_call_ends_the_child(child: Make) -> None:
    """A child is over when its call tells, which knows of a deadline that the child does not know of."""
    tree, kept, coordinator = _tree()
    facts = child("explorer")
    tree.take(facts, "session:start", {})
    tree.take(facts, "session:end", {"status": "cancelled"})
    assert kept.ended == []
    await coordinator.hooks.emit("delegate:error", {"sub_session_id": "explorer", "status": "timeout"})
    assert kept.ended == [("explorer", "timed out")]
    assert tree.running() == []


async def test_any_tool_may_start_a_child(child: Make) -> None:
    """A tool that tells nothing of its children ends them with its result, and one without a call ends by itself."""
    tree, kept, coordinator = _tree()
    tree.take(child("one"), "session:start", {})
    tree.take(child("two"), "session:start", {})
    tree.take(child("three", call=None), "session:start", {})
    tree.take(child("one"), "session:end", {"status": "completed"})
    tree.take(child("three", call=None), "session:end", {"status": "failed"})
    assert kept.ended == [("three", "failed")]
    await coordinator.hooks.emit("tool:post", {"tool_call_id": "call of one", "tool_name": "odd"})
    assert kept.ended == [("three", "failed"), ("one", "completed")]
    assert [one.name for one in tree.running()] == ["two"]


def test_a_call_of_the_same_id_elsewhere_is_another(child: Make) -> None:
    """Calls have ids of their own session: that of a child does not end the child of its parent."""
    tree, kept, _ = _tree()
    tree.take(child("one", call="c1"), "session:start", {})
    tree.take(child("deep", parent="one", depth=2, call="c1"), "session:start", {})
    tree.take(child("deep", parent="one", depth=2, call="c1"), "session:end", {"status": "completed"})
    tree.take(child("one", call="c1"), "tool:post", {"tool_call_id": "c1"})
    assert kept.ended == [("deep", "completed")]
    assert [one.name for one in tree.running()] == ["one"]


async def test_a_child_whose_process_is_gone(child: Make) -> None:
    """A child that began, said no last word and failed has crashed; one that never began was refused."""
    tree, kept, coordinator = _tree()
    tree.take(child("one"), "session:start", {})
    tree.take(child("two"), "module:load_failed", {})
    for name in ("one", "two"):
        await coordinator.hooks.emit("delegate:error", {"sub_session_id": name, "error": {"msg": "gone"}})
    assert kept.ended == [("one", "crashed"), ("two", "failed")]


async def test_a_child_that_another_call_asked_for_in_vain_runs_on(child: Make) -> None:
    """A call that is refused because the child is at work for another one tells nothing of how the child ends."""
    tree, kept, coordinator = _tree()
    tree.take(child("one", call="c1"), "session:start", {})
    tree.take(child("deep", parent="one", depth=2, call="c9"), "session:start", {})
    busy = {"type": "child_busy", "msg": "it is working already"}
    for name in ("one", "deep"):
        told = {"sub_session_id": name, "tool_call_id": "c2", "error": busy}
        await coordinator.hooks.emit("delegate:error", told)
        tree.take(child("one", call="c1"), "delegate:error", told)
    assert kept.ended == []
    assert [one.name for one in tree.running()] == ["one", "deep"]
    done = {"sub_session_id": "deep", "tool_call_id": "c9", "status": "success", "success": True}
    tree.take(child("deep", parent="one", depth=2, call="c9"), "session:end", {"status": "completed"})
    tree.take(child("one", call="c1"), "delegate:agent_completed", done)
    assert kept.ended == [("deep", "completed")]


def test_grandchildren_end_before_their_parents(child: Make) -> None:
    """The end of the turn ends all that is left, from below; who said no last word has crashed."""
    tree, kept, _ = _tree()
    tree.take(child("one"), "session:start", {})
    tree.take(child("two"), "session:start", {})
    tree.take(child("deep", parent="one", depth=2), "session:start", {})
    assert [one.name for one in tree.running()] == ["one", "deep", "two"]
    tree.take(child("two"), "session:end", {"status": "completed"})
    tree.clear()
    assert sorted(kept.ended) == [("deep", "crashed"), ("one", "crashed"), ("two", "completed")]
    assert kept.ended.index(("deep", "crashed")) < kept.ended.index(("one", "crashed"))
    assert tree.running() == []


async def test_a_call_that_was_stopped_before_its_child(child: Make) -> None:
    """When a call ends before its child, which is being stopped, the child is over with its own last word."""
    tree, kept, coordinator = _tree()
    for name in ("one", "two"):
        tree.take(child(name), "session:start", {})
        await coordinator.hooks.emit("tool:error", {"tool_call_id": f"call of {name}", "status": "cancelled"})
    assert kept.ended == []
    tree.take(child("one"), "session:end", {"status": "cancelled"})
    assert kept.ended == [("one", "cancelled")]
    tree.take(child("three"), "session:start", {})
    tree.clear(was_stopped=True)
    assert sorted(kept.ended) == [("one", "cancelled"), ("three", "cancelled"), ("two", "cancelled")]


def test_late_words_are_no_new_beginning(child: Make) -> None:
    """What a child says after it was told to be over is not shown as another child; one that is resumed is there."""
    tree, kept, _ = _tree()
    tree.take(child("one"), "session:start", {})
    tree.clear()
    tree.take(child("one"), "session:end", {"status": "cancelled"})
    assert kept.started == ["one"]
    tree.take(child("one"), "session:resume", {})
    assert kept.started == ["one", "one"]
    assert len(tree.running()) == 1


def test_agents_of_one_name_are_told_apart(child: Make) -> None:
    """Of several children of one agent, the later ones have a number."""
    tree, kept, _ = _tree()
    for name in ("a", "b", "c"):
        tree.take(child(name, agent="explorer"), "session:start", {})
    assert kept.started == ["explorer", "explorer 2", "explorer 3"]


def test_cost_rolls_up(child: Make) -> None:
    """What a grandchild uses is counted for it and its parent; a sibling does not pay for it, nor for the session."""
    tree, _, _ = _tree()
    for facts in (child("one"), child("two"), child("deep", parent="one", depth=2)):
        tree.take(facts, "session:start", {})
    for session_id, used in (("deep", _used()), ("one", _used("0.25")), ("two", _used(None)), ("root", _used())):
        tree.count(session_id, used)
    by_name = {one.name: one.usage for one in tree.running()}
    assert by_name["one"].cost == Decimal("0.75")
    assert by_name["deep"].cost == Decimal("0.5")
    assert (by_name["two"].cost, by_name["two"].unpriced) == (None, 1)


def test_secrets_are_not_kept(child: Make) -> None:
    """Of what a tool is given, only what was scrubbed is kept."""
    tree = LiveTree(lambda value: {"command": "***"})
    tree.take(child("one"), "tool:pre", {"tool_name": "bash", "tool_call_id": "1", "tool_input": {"command": "s3cret"}})
    assert tree.running()[0].doing == "bash ***"


_EVENTS = ["session:start", "tool:pre", "tool:post", "llm:response", "session:end", "delegate:error", "session:resume"]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(_EVENTS), st.integers(0, 5)), max_size=60))
def test_any_order_of_events(happened: list[tuple[int, str, int]]) -> None:
    """Whatever comes in whatever order, every child that started ends once for each start, and nothing is left."""
    tree, kept, _ = _tree()
    for number, event, other in happened:
        parent = f"s{number // 2}" if number else "root"
        facts = ChildFacts(f"s{number}", parent, f"a{number}", 1 + (number > 0), f"c{number}", None)
        tree.take(facts, event, {"tool_call_id": f"c{other}", "sub_session_id": f"s{other}"})
        tree.count(facts.session_id, _used())
    tree.clear()
    assert len(kept.started) == len(kept.ended)
    assert tree.running() == []
