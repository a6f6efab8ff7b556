"""Sessions in other processes, and those below them, draw on the budget at home."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_foundation.usage import BudgetExceededError, HomeLine, SessionBudget


class Apart:
    """The budget of a session in another process, as it is at home and as it is there."""

    def __init__(self, home: SessionBudget) -> None:
        self.home = home
        self.there = SessionBudget(self.home.allowance())
        #: Answers come when this is set.
        self.answers = asyncio.Event()
        self.answers.set()
        self.there.home = HomeLine(self._reserve, self.home.place_left, self._report)

    def _report(self) -> None:
        self.home.absorb(self.there.report())

    async def _reserve(self, name: Any) -> str:
        self._report()
        reason = await self.home.claim_for_process(name)
        await self.answers.wait()
        return reason or ""


def _left(root: SessionBudget) -> str:
    return root.allowance()["fan_out"]


async def test_places_are_counted_at_home() -> None:
    """One too many is refused in whichever process it would be, also below a process of a process."""
    root = SessionBudget({"fan_out": 4})
    apart = Apart(await root.claim_child("process"))
    further = Apart(await apart.there.claim_child("process"))
    assert _left(root) == "2"
    first, second = await apart.there.claim_child("a"), await further.there.claim_child("b")
    assert _left(root) == "0"
    for budget in (root, apart.there, further.there, first):
        with pytest.raises(BudgetExceededError, match="4 child sessions at the same time, and 4 are running") as raised:
            await budget.claim_child("c")
        assert raised.value.limit == "fan_out"
    second.close()
    second.close()
    assert _left(root) == "1"
    for budget in (first, further.home, apart.home):
        budget.close()
    assert _left(root) == "4"


async def test_places_of_a_process_that_is_gone_are_free() -> None:
    """What it had taken and could not give back is given back with its own."""
    root = SessionBudget({"fan_out": 3})
    apart = Apart(await root.claim_child("process"))
    await apart.there.claim_child("a")
    await apart.there.claim_child("b")
    assert _left(root) == "0"
    apart.home.close()
    assert _left(root) == "3"


async def test_a_place_that_comes_too_late_is_given_back() -> None:
    """Whoever is cancelled while it is asked for keeps none, here or there."""
    root = SessionBudget({"fan_out": 3})
    apart = Apart(await root.claim_child("process"))
    apart.answers.clear()
    claiming = asyncio.ensure_future(apart.there.claim_child("a"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert _left(root) == "1"
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    apart.answers.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (_left(root), apart.there._children) == ("2", 0)


async def test_no_line_is_no_child() -> None:
    """When home cannot be asked, nobody knows how many there are."""

    async def broken(name: Any) -> str:
        raise ConnectionError("gone")

    there = SessionBudget({"fan_out": 5})
    there.home = HomeLine(broken, lambda: None, lambda: None)
    with pytest.raises(BudgetExceededError, match="cannot be asked for: ConnectionError: gone"):
        await there.claim_child("a")
    assert there._children == 0


async def test_calls_below_processes_are_reserved_at_the_root() -> None:
    """A process of a process has what is left at the root, not what was left when it began."""
    root = SessionBudget({"turns": 3})
    further = Apart(Apart(root.child()).there.child()).there
    assert root.reserve("turns") is None
    assert [await further.claim("turns") for _ in range(2)] == [None, None]
    assert await further.claim("turns") == "the budget of 3 turns is used up (3 used)"
    assert root.used()["turns"] == 3


async def test_what_is_spent_below_a_process_is_known_at_the_root_at_once() -> None:
    """Others must not go on with what is spent already."""
    root = SessionBudget({"tokens": 10})
    apart = Apart(root.child({}, "process"))
    further = Apart(apart.there.child({}, "deeper"))
    apart.there.child({}, "below").add_usage({"output_tokens": 4})
    assert root.used()["tokens"] == 4
    further.there.add_usage({"output_tokens": 6})
    assert root.check() == "the budget of 10 tokens is used up (10 used)"
