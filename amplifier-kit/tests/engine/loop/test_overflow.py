"""A request that the model says is too long: made smaller once, and never sent again as it is."""

from typing import Any

import pytest

from amplifier_core.llm_errors import ContextLengthError
from amplifier_kit.engine.context.token_budget import estimate_all
from amplifier_testing.loop.fakes import ListContext, LoopRig, say


class _Shrinking(ListContext):
    """A context that leaves out the oldest messages when it gets a budget."""

    def __init__(self, *, can_shrink: bool = True) -> None:
        super().__init__({"role": "user", "content": f"{number} " * 200} for number in range(20))
        self.budgets: list[int | None] = []
        self._can_shrink = can_shrink

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any = None
    ) -> list[dict[str, Any]]:
        self.budgets.append(token_budget)
        view = list(self.messages)
        while token_budget is not None and self._can_shrink and estimate_all(view) > token_budget:
            view.pop(0)
        return view


async def test_lesson_7_overflow_is_answered_with_a_smaller_request(run: Any) -> None:
    """The second request is smaller, has the last prompt, and the history stays as it is."""
    rig = LoopRig(ContextLengthError("too long"), say("done"))
    context = rig.context = _Shrinking()
    assert await run(rig) == "done"
    first, second = rig.provider.requests
    assert len(second.messages) < len(first.messages)
    assert second.messages[-1].content == "hello"
    assert context.budgets == [None, pytest.approx(0.6 * estimate_all(context.messages[:-1]), rel=0.01)]
    assert len(context.messages) == 22
    assert rig.data("provider:error") == []


@pytest.mark.parametrize(("answers", "can_shrink", "asked"), [(2, True, 2), (1, False, 1)])
async def test_lesson_7_overflow_is_not_tried_for_ever(run: Any, answers: int, can_shrink: bool, asked: int) -> None:
    """A smaller request that is too long as well ends the turn, as does one that cannot be made smaller."""
    rig = LoopRig(*[ContextLengthError("too long")] * answers)
    rig.context = _Shrinking(can_shrink=can_shrink)
    with pytest.raises(ContextLengthError):
        await run(rig)
    assert len(rig.provider.requests) == asked
    assert len(rig.data("provider:error")) == 1
