"""Reading verdicts, and folding many into one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core._verdicts import Fold, InvalidVerdict, plain_result, read_verdict
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import ContextInjection, HookResult

#: No deadline: tests never judge a time.
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

_text = st.none() | st.text(max_size=4)
_item = st.builds(ContextInjection, content=st.text(max_size=4), ephemeral=st.booleans())
_verdicts = st.lists(
    st.builds(
        HookResult,
        action=st.sampled_from(["continue", "deny", "modify", "inject_context", "ask_user"]),
        data=st.none() | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        reason=_text,
        context_injection=_text,
        context_injections=st.lists(_item, max_size=2),
        suppress_output=st.booleans(),
    ),
    max_size=5,
)


def fold(event: str, verdicts: Iterable[tuple[str, HookResult]], data: Any) -> HookResult:
    """Fold `(handler name, verdict)` pairs; `data` is returned when none of them decides."""
    folding = Fold(event)
    for name, verdict in verdicts:
        folding.add(name, verdict)
    return folding.outcome() or plain_result(data)


def expected_action(verdicts: list[HookResult]) -> str:
    """Return the action that these verdicts amount to, by the words of the contract."""
    actions = {verdict.action for verdict in verdicts}
    if "deny" in actions:
        return "deny"
    if "ask_user" in actions:
        return "ask_user"
    injects = (
        verdict.context_injection is not None or verdict.context_injections
        for verdict in verdicts
        if verdict.action == "inject_context"
    )
    return "inject_context" if any(injects) else "continue"


@unhurried
@given(_verdicts, st.randoms(use_true_random=False))
def test_action_does_not_depend_on_order(verdicts: list[HookResult], random: Any) -> None:
    """Deny beats ask beats inject beats modify and continue, in any order."""
    shuffled = list(verdicts)
    random.shuffle(shuffled)
    for order in (verdicts, shuffled):
        named = [(f"h{number}", verdict) for number, verdict in enumerate(order)]
        assert fold("x:y", named, {}).action == expected_action(verdicts)


@unhurried
@given(_verdicts, st.randoms(use_true_random=False))
def test_emitted_action_does_not_depend_on_order(verdicts: list[HookResult], random: Any) -> None:
    """The same holds for real handlers, sync and async, in whatever order their priorities put them."""

    def answering(verdict: HookResult, later: bool) -> Any:
        async def handler(event: str, data: Any) -> HookResult:
            await asyncio.sleep(0)
            return verdict

        return handler if later else lambda event, data: verdict

    async def action(order: list[int]) -> str:
        hooks = HookRegistry()
        for verdict, priority in zip(verdicts, order, strict=True):
            hooks.register("x:y", answering(verdict, later=priority % 2 == 0), priority=priority)
        return (await hooks.emit("x:y", {"a": 1})).action

    order = list(range(len(verdicts)))
    random.shuffle(order)
    assert asyncio.run(action(order)) == expected_action(verdicts)


class Duck:
    """Look like a result without being one."""

    def __init__(self, dumped: Any) -> None:
        self.dumped = dumped

    def model_dump(self) -> Any:
        if isinstance(self.dumped, BaseException):
            raise self.dumped
        return self.dumped


#: Built without validation; the content is not a text.
INVALID_INJECTION = ContextInjection.model_construct(content=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "returned",
    [
        *("deny", 5, 1.5, True, [], (), b"", object()),
        *({"action": "allow"}, {"action": None}, {"data": "text"}, {"reason": 5}, {"context_injections": ["text"]}),
        *(HookResult, Duck, dict),
        *(Duck(None), Duck("text"), Duck(HookResult(action="continue")), Duck(ValueError("broken"))),
        # Built without validation, with a value of the wrong type each.
        HookResult.model_construct(action="allow"),  # type: ignore[arg-type]
        HookResult.model_construct(action="deny", reason=5),  # type: ignore[arg-type]
        HookResult.model_construct(action="modify", data="text"),  # type: ignore[arg-type]
        HookResult.model_construct(action="inject_context", context_injections=[1]),  # type: ignore[list-item]
        HookResult.model_construct(action="inject_context", context_injections=[INVALID_INJECTION]),
        {"action": "inject_context", "context_injections": [INVALID_INJECTION]},
        HookResult.__new__(HookResult),
        {"context_injection": object()},
    ],
)
def test_unreadable_verdicts(returned: Any) -> None:
    """Everything else is no verdict, also when it claims to be one."""
    with pytest.raises(InvalidVerdict, match=r"^Hook handler returned invalid response: "):
        read_verdict(returned)
