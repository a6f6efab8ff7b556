"""Whatever was said, the view of it is sound, fits, and says the same every time."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amplifier_core.llm_errors import ContextLengthError
from amplifier_kit.config import read_config
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig, estimate_all
from amplifier_kit.engine.pairing import check_pairing, tool_call_ids

Message = dict[str, Any]

AT = {"timestamp": "2026-01-01T00:00:00.000+00:00"}
SYSTEM = {"role": "system", "content": "Be exact. Never guess.", "metadata": AT}

words = st.text(max_size=40) | st.integers(1, 600).map(lambda size: "wörd " * size) | st.just("short")
results = words | st.integers(100, 50_000).map(lambda size: "x" * size)


def user(text: str, **metadata: Any) -> Message:
    return {"role": "user", "content": text, "metadata": {**AT, **metadata}}


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[Message]:
    """One turn: a prompt, some rounds of parallel calls with all their results, and an answer."""
    turn = [user(draw(words))]
    for step in range(draw(st.integers(0, 3))):
        ids = [f"{number}-{step}-{index}" for index in range(draw(st.integers(1, 4)))]
        calls = [{"id": call, "tool": "bash", "arguments": {"command": draw(words)}} for call in ids]
        turn.append({"role": "assistant", "content": draw(words), "tool_calls": calls, "metadata": AT})
        answered = draw(st.permutations(ids))
        turn += [{"role": "tool", "tool_call_id": call, "name": "bash", "content": draw(results)} for call in answered]
    if draw(st.booleans()):
        turn.append({"role": "system", "content": draw(words), "metadata": {**AT, "source": "hook"}})
    if draw(st.booleans()):
        turn.append({"role": "assistant", "content": [{"type": "text", "text": draw(words)}], "metadata": AT})
    return turn


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A sound history of several turns."""
    history = [SYSTEM] if draw(st.booleans()) else []
    for number in range(draw(st.integers(1, 8))):
        history += draw(turns(number))
    return history


@st.composite
def broken_histories(draw: st.DrawFn) -> list[Message]:
    """A history with messages lost, doubled and out of place, as crashes and bugs leave them."""
    history = draw(histories())
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(history) - 1))
        damage = draw(st.sampled_from(["lose", "double", "move"]))
        message = history[place]
        if damage != "double" and len(history) > 1:
            history.pop(place)
        if damage != "lose":
            history.insert(draw(st.integers(0, len(history))), copy.deepcopy(message))
    return history


budgets = st.integers(200, 20_000)
options = st.fixed_dictionaries(
    {},
    optional={
        "compact_threshold": st.floats(0.1, 1),
        "target_usage": st.floats(0.05, 1),
        "protected_recent": st.floats(0, 1),
        "protected_tool_results": st.integers(0, 10),
        "truncate_chars": st.integers(0, 400),
        "compaction_notice_enabled": st.booleans(),
        "compaction_notice_token_reserve": st.integers(0, 2000),
        "compaction_notice_verbosity": st.sampled_from(["minimal", "normal", "verbose"]),
        "max_tool_result_bytes": st.integers(256, 200_000),
    },
)


def view_of(history: list[Message], budget: int, config: dict[str, Any]) -> tuple[BaseContext, list[Message] | None]:
    """Give the context and its view, None when that cannot fit."""
    context = BaseContext(read_config(ContextConfig, config, module="context-simple"))

    async def build() -> list[Message] | None:
        await context.set_messages(history)
        try:
            return await context.get_messages_for_request(token_budget=budget)
        except ContextLengthError:
            return None

    return context, asyncio.run(build())


def checked(test: Callable[..., None]) -> Callable[..., None]:
    quiet = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    return quiet(test)


@checked
@given(histories(), budgets, options)
def test_a_sound_ledger_gives_a_sound_view(history: list[Message], budget: int, config: dict[str, Any]) -> None:
    """Calls and results stay together or go together, wherever the view is cut."""
    conversation = [message for message in history if message["role"] != "system"]
    assert check_pairing(conversation) == []
    _, view = view_of(history, budget, config)
    assert view is None or check_pairing(view) == []


@checked
@given(histories() | broken_histories(), budgets, options)
def test_a_view_fits(history: list[Message], budget: int, config: dict[str, Any]) -> None:
    """A view takes no more than the budget, also of a history that is not sound."""
    _, view = view_of(history, budget, config)
    assert view is None or estimate_all(view) <= budget


@checked
@given(histories() | broken_histories(), st.lists(budgets, min_size=1, max_size=4), options)
def test_the_ledger_stays_whole(history: list[Message], asked: list[int], config: dict[str, Any]) -> None:
    """No request changes what get_messages gives."""
    context, _ = view_of(history, asked[0], config)
    before = copy.deepcopy(asyncio.run(context.get_messages()))
    for budget in asked:
        try:
            view = asyncio.run(context.get_messages_for_request(token_budget=budget))
        except ContextLengthError:
            continue
        for message in view:
            message["content"] = "overwritten"
    assert asyncio.run(context.get_messages()) == before
    assert len(before) == len(history)


@checked
@given(histories() | broken_histories(), st.lists(budgets, min_size=2, max_size=5), options, st.data())
def test_a_view_depends_on_ledger_and_budget_alone(
    history: list[Message], asked: list[int], config: dict[str, Any], data: st.DataObject
) -> None:
    """A context that lived through the history, with requests on the way, gives the view of one that just woke up."""
    lived = BaseContext(read_config(ContextConfig, config, module="context-simple"))

    async def live() -> list[Message] | None:
        view = None
        for message in history:
            await lived.add_message({**message, "metadata": {**AT, **message.get("metadata", {})}})
            if data.draw(st.booleans(), label="request here"):
                view = await ask(lived, data.draw(st.sampled_from(asked), label="budget"))
        for budget in asked:
            view = await ask(lived, budget)
        return view

    async def ask(context: BaseContext, budget: int) -> list[Message] | None:
        try:
            return await context.get_messages_for_request(token_budget=budget)
        except ContextLengthError:
            return None

    stamped = [{**message, "metadata": {**AT, **message.get("metadata", {})}} for message in history]
    assert asyncio.run(live()) == view_of(stamped, asked[-1], config)[1]


@checked
@given(histories() | broken_histories(), budgets, options)
def test_instructions_are_always_there(history: list[Message], budget: int, config: dict[str, Any]) -> None:
    """Every view begins with the system messages of the ledger, word for word."""
    _, view = view_of(history, budget, config)
    expected = [SYSTEM["content"]] * sum(message == SYSTEM for message in history)
    if view is not None:
        contents = [message["content"] for message in view if message["role"] == "system"]
        assert contents.count(SYSTEM["content"]) >= len(expected)
        assert not expected or view[0]["content"] == SYSTEM["content"]


@checked
@given(histories() | broken_histories(), budgets, options)
def test_the_last_user_message_is_word_for_word(history: list[Message], budget: int, config: dict[str, Any]) -> None:
    """What the user said last is in every view as it was said."""
    _, view = view_of(history, budget, config)
    said = [message for message in history if message["role"] == "user"]
    if view is not None and said:
        assert [message for message in view if message["role"] == "user"][-1] == said[-1]


@checked
@given(histories(), budgets, options)
@example([user("x" * 400), {"role": "assistant", "content": "y" * 4000, "metadata": AT}, user("now this")], 300, {})
def test_what_is_left_is_in_order(history: list[Message], budget: int, config: dict[str, Any]) -> None:
    """A view is a part of the ledger in the ledger's order: nothing is invented but the notice."""
    _, view = view_of(history, budget, config)
    if view is None:
        return
    shown = [message for message in view if message["role"] != "system"]
    ledger = iter(history)  # each is looked for behind the one before
    assert all(any(_stems_from(message, original) for original in ledger) for message in shown)


def _stems_from(shown: Message, original: Message) -> bool:
    """Tell whether `shown` is `original`, or a shorter form of it."""
    if "_truncated" in shown or "_stubbed" in shown:
        same = ("role", "tool_call_id", "tool_calls")
        return all(shown.get(key) == original.get(key) for key in same)
    whole = original["role"] != "tool" and shown == original
    return whole or (original["role"] == "tool" and shown.get("tool_call_id") == original.get("tool_call_id"))


@checked
@given(broken_histories(), budgets, options)
def test_orphans_do_not_stand_in_the_way(history: list[Message], budget: int, config: dict[str, Any]) -> None:
    """A view of a damaged history parts no call from a result that directly follows it."""
    numbered = [{**message, "metadata": {**AT, "number": number}} for number, message in enumerate(history)]
    _, view = view_of(numbered, budget, config)
    if view is None:
        return
    shown = {message["metadata"].get("number") for message in view}
    for index, message in enumerate(numbered):
        asked = set(tool_call_ids(message))
        for number in range(index + 1, len(numbered)):
            following = numbered[number]
            if following["role"] != "tool" or following["tool_call_id"] not in asked:
                break
            assert (index in shown) == (number in shown)
