"""Reading verdicts, and folding many into one."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

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
    """Deny beats ask beats inject beats modify and continue, whoever spoke first."""
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


def test_first_question_is_remembered() -> None:
    """Of several questions the first one is asked, and a later deny makes it pointless."""
    first, second = (HookResult(action="ask_user", approval_prompt=prompt) for prompt in "ab")
    assert fold("x:y", [("1", first), ("2", second)], {}).approval_prompt == "a"
    deny = HookResult(action="deny", reason="no")
    assert fold("x:y", [("1", first), ("2", deny), ("3", second)], {}) == deny


def test_all_strengths_in_all_orders() -> None:
    """With one verdict of each action all 120 orders deny; without the deny all ask; and so on down."""
    weakest_first = ["continue", "modify", "inject_context", "ask_user", "deny"]
    for strongest in range(1, len(weakest_first) + 1):
        present = [HookResult(action=action, context_injection="t") for action in weakest_first[:strongest]]
        outcomes = {fold("e", [("h", v) for v in order], {}).action for order in itertools.permutations(present)}
        assert outcomes == {"continue" if strongest <= 2 else weakest_first[strongest - 1]}


def test_plain_result_is_a_whole_hook_result() -> None:
    """The shortcut that skips validation gives what the validating constructor gives."""
    data = {"a": [1]}
    plain = plain_result(data)
    built = HookResult(action="continue", data=data)
    assert plain == built
    assert plain.data is data
    assert plain.model_fields_set == built.model_fields_set
    assert plain.model_dump() == built.model_dump()
    assert plain.model_copy(deep=True) == built
    assert pickle.loads(pickle.dumps(plain)) == built
    assert repr(plain) == repr(built)
    plain.reason = "set later"
    plain.context_injections.append(ContextInjection(content="x"))
    assert plain_result({}).reason is None
    assert plain_result({}).context_injections == []


class Duck:
    """Look like a result without being one."""

    def __init__(self, dumped: Any) -> None:
        self.dumped = dumped

    def model_dump(self) -> Any:
        if isinstance(self.dumped, BaseException):
            raise self.dumped
        return self.dumped


class Wider(HookResult):
    """Add a field, and dump in a way of its own."""

    note: str = "mine"

    def model_dump(self) -> dict[str, Any]:  # type: ignore[override]
        raise RuntimeError("not to be asked")

    def __bool__(self) -> bool:
        return False


class Unrelated(BaseModel):
    """Be a model that has nothing to do with hooks."""

    number: int = 1


@pytest.mark.parametrize(
    ("returned", "action"),
    [
        ({}, "continue"),
        ({"action": "deny"}, "deny"),
        ({"action": "deny", "unknown": 1, 2: 3}, "deny"),
        ({1: 2}, "continue"),
        (HookResult(action="modify"), "modify"),
        (Wider(action="deny"), "deny"),
        (Duck({"action": "ask_user"}), "ask_user"),
        (Unrelated(), "continue"),
    ],
)
def test_readable_verdicts(returned: Any, action: str) -> None:
    """Results, dicts and what can dump itself are read; unknown keys are ignored, a missing action means continue."""
    verdict = read_verdict(returned)
    assert verdict is not None
    assert type(verdict) is HookResult
    assert verdict.action == action
    assert read_verdict(None) is None


#: Built without validation; the content is not a text.
INVALID_INJECTION = ContextInjection.model_construct(content=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "returned",
    [
        *("deny", 5, 1.5, True, [], (), b"", object()),
        *({"action": "allow"}, {"action": None}, {"data": "text"}, {"reason": 5}, {"context_injections": ["text"]}),
        *(HookResult, Duck, dict),
        *(Duck(None), Duck("text"), Duck(HookResult(action="continue")), Duck(ValueError("broken"))),
        *(Duck(asyncio.CancelledError()), Duck(GeneratorExit()), Duck(BaseException("odd"))),
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


def test_read_verdict_shares_nothing() -> None:
    """The verdict that counts is a copy: what a handler does to its own later changes nothing."""
    injection = ContextInjection(content="text")
    options = ["Allow"]
    nested = {"list": [1], "model": Unrelated()}
    own = HookResult(
        action="ask_user", data={"nested": nested}, approval_options=options, context_injections=[injection]
    )
    for returned in (own, {**own.__dict__}):
        verdict = read_verdict(returned)
        assert verdict is not None
        assert verdict.data is not None
        assert verdict.data["nested"]["list"] == [1]
        verdict.data["nested"]["list"].append(2)
        verdict.context_injections[0].content = "changed"
        assert verdict.approval_options is not None
        verdict.approval_options.append("changed")
    assert nested["list"] == [1]
    assert injection.content == "text"
    assert own.approval_options == ["Allow"]


def test_verdict_texts_are_clean() -> None:
    """No text of a verdict holds what a UTF-8 file could not take."""
    for returned in (
        {"action": "deny", "reason": "a\ud800", "approval_options": ["\udfff"]},
        HookResult(action="inject_context", context_injection="\ud800", user_message="\ud800"),
        HookResult(action="inject_context", context_injections=[ContextInjection(content="\ud800")]),
    ):
        verdict = read_verdict(returned)
        assert verdict is not None
        text = json.dumps(verdict.model_dump(), ensure_ascii=False)
        assert "\ufffd" in text
        text.encode()


def test_verdict_data_is_clean() -> None:
    """The data of a verdict is JSON: nested models are dumped, cycles are cut, the rest is text."""
    loop: dict[str, Any] = {}
    loop["self"] = loop
    cyclic = read_verdict(HookResult(action="modify", data={"loop": loop, "object": {1}}))
    assert cyclic is not None
    assert cyclic.data is not None
    assert cyclic.data["object"] == "{1}"
    assert "<cycle: dict>" in json.dumps(cyclic.data)
    dumped = read_verdict(HookResult(action="deny", data={"model": Unrelated(), "pair": (1, 2)}))
    assert dumped is not None
    assert dumped.data == {"model": {"number": 1}, "pair": [1, 2]}
