"""A model that goes round in circles is noticed by what it calls and by what comes of it."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.engine.loop.loop_guard import LoopGuard, Repetition, Step


def verdicts(guard: LoopGuard, names: Iterable[str]) -> list[Repetition | None]:
    return [guard.record([Step(name, {}, "same")]) for name in names]


def test_the_same_again_is_warned_of_once_and_then_stopped() -> None:
    """The first warning comes at its number, the end at its own, and nothing in between."""
    seen = verdicts(LoopGuard(3, 6), "AAAAAA")
    assert seen == [None, None, Repetition(3, 1, ["A"], False), None, None, Repetition(6, 1, ["A"], True)]


def test_longer_circles_count_too() -> None:
    """A circle over several iterations is the same fault."""
    seen = verdicts(LoopGuard(3, 4), "ABABABAB")
    assert seen[:5] == [None] * 5
    assert seen[5] == Repetition(3, 2, ["A", "B"], False)
    assert seen[7] == Repetition(4, 2, ["A", "B"], True)


def test_other_results_are_no_circle() -> None:
    """The same call with another result each time is work, not a circle."""
    guard = LoopGuard(2, 3)
    assert [guard.record([Step("tail", {"file": "log"}, number)]) for number in range(20)] == [None] * 20


def test_other_arguments_are_no_circle() -> None:
    """The same result for other arguments is no circle."""
    guard = LoopGuard(2, 3)
    assert [guard.record([Step("read", {"line": number}, "")]) for number in range(20)] == [None] * 20


def test_iterations_without_steps_say_nothing() -> None:
    """An iteration of which every call is exempt neither counts nor interrupts."""
    guard = LoopGuard(3, None)
    assert guard.record([]) is None
    assert guard.record([Step("A", {}, "")]) is None
    assert guard.record([]) is None
    assert guard.record([Step("A", {}, "")]) is None
    assert guard.record([Step("A", {}, "")]) == Repetition(3, 1, ["A"], False)


def test_never_means_never() -> None:
    """Without numbers nothing is noticed."""
    assert verdicts(LoopGuard(None, None), "A" * 50) == [None] * 50
    assert not any(circle and circle.must_stop for circle in verdicts(LoopGuard(3, None), "A" * 50))


@given(st.text("ABCD", max_size=12), st.integers(1, 4))
def test_a_circle_is_found_whatever_came_before(before: str, period: int) -> None:
    """Six rounds of a short circle end the turn, whatever the model did earlier."""
    circle = "WXYZ"[:period] * 6
    assert any(found and found.must_stop for found in verdicts(LoopGuard(3, 6), before + circle))


@given(st.lists(st.integers(), unique=True, max_size=40))
def test_steps_that_all_differ_are_never_a_circle(numbers: list[int]) -> None:
    """No repetition, no complaint."""
    guard = LoopGuard(2, 2)
    assert all(guard.record([Step("work", {"n": number}, "")]) is None for number in numbers)
