"""Playing a scenario."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ChatRequest
from amplifier_core.llm_errors import InvalidRequestError
from amplifier_module_provider_mock.scenario import Script, load_scenario

Write = Callable[[str], Path]
Ask = Callable[..., ChatRequest]


def play(script: Script, request: ChatRequest) -> Any:
    """Return the reply to a request."""
    return script.next(request.messages, [tool.name for tool in request.tools or []])


def test_entries_answer_in_order(scenario_file: Write, ask: Ask) -> None:
    """One entry answers one call, and then there is nothing left."""
    script = Script(load_scenario(scenario_file("turns: [{text: one}, {text: two}]")))
    assert [play(script, ask("x")).text for _ in range(2)] == ["one", "two"]
    for _ in range(2):
        with pytest.raises(InvalidRequestError) as caught:
            play(script, ask("x"))
        assert str(caught.value) == "scenario exhausted after 2 calls"
        assert caught.value.retryable is False


def test_every_session_has_its_own_place(scenario_file: Write, ask: Ask) -> None:
    """Two sessions with one scenario do not take each other's entries."""
    scenario = load_scenario(scenario_file("turns: [{text: one}, {text: two}]"))
    first, second = Script(scenario), Script(scenario)
    assert [play(script, ask("x")).text for script in (first, first, second)] == ["one", "two", "one"]


def test_repeating(scenario_file: Write, ask: Ask) -> None:
    """With `repeat` the first entry follows the last; without entries there is nothing to repeat."""
    script = Script(load_scenario(scenario_file("{turns: [{text: one}, {text: two}], repeat: true}")))
    assert [play(script, ask("x")).text for _ in range(5)] == ["one", "two", "one", "two", "one"]
    with pytest.raises(InvalidRequestError, match=r"^scenario exhausted after 0 calls$"):
        play(Script(load_scenario(scenario_file("repeat: true"))), ask("x"))


def test_children_play_their_own_part(scenario_file: Write, ask: Ask) -> None:
    """An agent answers from its own list; one that has none when others do, is refused by name."""
    text = "{turns: [{text: root}], agents: {explorer: [{text: child}]}}"
    scenario = load_scenario(scenario_file(text))
    assert play(Script(scenario), ask("x")).text == "root"
    assert play(Script(scenario, "foundation:explorer"), ask("x")).text == "child"
    with pytest.raises(InvalidRequestError, match="no entries for agent 'writer'; there are some for explorer"):
        play(Script(scenario, "writer"), ask("x"))
    assert play(Script(load_scenario(scenario_file("turns: [{text: all}]")), "writer"), ask("x")).text == "all"


def test_ids_are_made_up_once(scenario_file: Write, ask: Ask) -> None:
    """A tool call without an id gets one of its own, the same in every run, also when entries repeat."""
    text = "{turns: [{tool_calls: [{name: a}, {name: b, id: mine}, {name: c}]}], repeat: true}"
    scenario = load_scenario(scenario_file(text))
    runs = []
    for _ in range(2):
        script = Script(scenario)
        runs.append([[call["id"] for call in play(script, ask("x")).tool_calls] for _ in range(2)])
    assert runs[0] == runs[1] == [["call_1_1", "mine", "call_1_3"], ["call_2_1", "mine", "call_2_3"]]


HOLDS = [
    ("{last_role: user}", [("system", "s"), "hello"], ()),
    ("{last_role: tool}", ["hello", ("assistant", ""), ("tool", "done"), "<system-reminder>x</system-reminder>"], ()),
    ("{contains: hello}", ["hello", ("assistant", "hi"), "more"], ()),
    ("{contains: [hello, more]}", ["hello", ("assistant", "hi"), "more"], ()),
    ("{contains: result}", ["go", ("assistant", ""), ("tool", "the result"), ("tool", "another")], ()),
    ("{system_contains: [be, kind]}", [("system", "be"), ("developer", "kind"), "x"], ()),
    ("{tools: [look]}", ["x"], ("go", "look")),
    ("{tools: []}", ["x"], ()),
]

FAILS = [
    ("{last_role: user}", [("assistant", "hi")], (), "last_role: wanted 'user', the request has 'assistant'"),
    ("{last_role: user}", [], (), "last_role: wanted 'user', the request has None"),
    ("{contains: bye}", ["hello"], (), "contains: wanted ['bye'], the request has 'hello'"),
    ("{contains: kind}", [("system", "kind"), "x"], (), "contains: wanted ['kind'], the request has 'x'"),
    ("{system_contains: x}", [("system", "kind"), "x"], (), "system_contains: wanted ['x'], the request has 'kind'"),
    ("{tools: [look, fly]}", ["x"], ("look",), "tools: wanted ['look', 'fly'], the request has ['look']"),
    ("{tools: []}", ["x"], ("look",), "tools: wanted [], the request has ['look']"),
    ("{last_role: user, contains: bye}", ["hello"], (), "contains: wanted ['bye']"),
]


@pytest.mark.parametrize(("expect", "said", "tools"), HOLDS)
def test_an_expectation_that_holds(
    scenario_file: Write, ask: Ask, expect: str, said: list[Any], tools: tuple[str, ...]
) -> None:
    """A request that is as expected is answered."""
    script = Script(load_scenario(scenario_file(f"turns: [{{text: ok, expect: {expect}}}]")))
    assert play(script, ask(*said, tools=tools)).text == "ok"


@pytest.mark.parametrize(("expect", "said", "tools", "message"), FAILS)
def test_an_expectation_that_does_not(
    scenario_file: Write, ask: Ask, expect: str, said: list[Any], tools: tuple[str, ...], message: str
) -> None:
    """A request that is not is refused, with the entry, the key, what was wanted and what there is."""
    path = scenario_file(f"turns: [{{}}, {{text: ok, expect: {expect}}}]")
    script = Script(load_scenario(path))
    play(script, ask("first"))
    with pytest.raises(InvalidRequestError) as caught:
        play(script, ask(*said, tools=tools))
    assert str(caught.value).startswith(f"scenario entry {path}: turns[1]: expect.{message}")


def test_a_long_request_is_shown_in_part(scenario_file: Write, ask: Ask) -> None:
    """A mismatch shows the end of the conversation, not all of it."""
    script = Script(load_scenario(scenario_file("turns: [{expect: {contains: bye}}]")))
    with pytest.raises(InvalidRequestError) as caught:
        play(script, ask("a" * 5000 + "the end"))
    assert "the end" in str(caught.value)
    assert len(str(caught.value)) < 1000
