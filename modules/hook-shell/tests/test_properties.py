"""Whatever hooks say, in whatever order: a deny denies, nothing that is not understood passes, nothing else raises."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_module_hook_shell.answer import MOST_ROUNDS, Answer, AnswerError, Evaluation, Verdict, read_answer
from amplifier_module_hook_shell.hook_events import HOOK_EVENTS, HookEvent, Matcher, MatcherError
from amplifier_module_hook_shell.hook_files import Hook, Source, read_entries

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
MOMENT = st.sampled_from(sorted(HOOK_EVENTS.values(), key=lambda hook_event: hook_event.name))
GATE = HOOK_EVENTS["PreToolUse"]
YES = {"approve", "allow", "continue"}


@given(MOMENT, st.none() | st.integers(-40, 300), st.text(max_size=60), st.text(max_size=20), st.booleans())
def test_every_answer_is_understood_or_refused(
    hook_event: HookEvent, code: int | None, stdout: str, stderr: str, is_cut: bool
) -> None:
    """Any exit code with any output gives an answer or an AnswerError; 2 always denies, and has a reason."""
    try:
        answer = read_answer(hook_event, code, stdout, stderr, is_cut=is_cut)
    except AnswerError:
        assert code != 2
        return
    assert (answer.decision == "deny") >= (code == 2)
    assert answer.decision != "deny" or answer.reason


@given(MOMENT, st.dictionaries(st.sampled_from(["decision", "reason", "continue", "hookSpecificOutput"]), JSON))
def test_only_known_words_are_consent(hook_event: HookEvent, said: dict[str, Any]) -> None:
    """A decision that is present and no word for yes never comes out as consent."""
    try:
        answer = read_answer(hook_event, 0, json.dumps(said), "", is_cut=False)
    except AnswerError:
        return
    word = said.get("decision")
    if word is not None:
        assert (answer.decision == "continue") <= (isinstance(word, str) and word.lower() in YES)
    if said.get("continue") is False:
        assert answer.decision == "deny"


@given(JSON)
def test_any_section_can_be_read(section: Any) -> None:
    """Whatever stands in a hooks file is read or reported."""
    entries = read_entries(section, Source("file"))
    assert all(problem.error for problem in entries.problems)


@given(st.integers(0, 3), st.lists(st.sampled_from(["good", "bad"]), max_size=6))
def test_bad_entries_never_cost_good_ones(groups: int, kinds: list[str]) -> None:
    """Every good entry is there, in order, whatever stands around it."""
    entry = {"good": {"command": "true"}, "bad": {"command": 7}}
    section = {"PreToolUse": [{"hooks": [entry[kind] for kind in kinds]} for _ in range(groups)]}
    found = read_entries(section, Source("file"))
    assert len(found.hooks) == groups * kinds.count("good")
    assert len(found.problems) == groups * kinds.count("bad")


@given(st.text(max_size=20), st.text(alphabet="abX_-1", min_size=1, max_size=8))
@example("[[", "1")
def test_a_name_matches_itself_and_no_part_of_it(text: str, name: str) -> None:
    """Every matcher is readable or an error; a plain name matches itself, and no longer name."""
    with suppress(MatcherError):
        Matcher(text).matches(name)
    assert Matcher(name).matches(name)
    assert not Matcher(name).matches(f"{name}x")
    assert not Matcher(name).matches(f"x{name}")


def _hook(index: int, group: int | None) -> Hook:
    name = f"hook-{index}"
    return Hook(name, GATE, Matcher(), "command", "true", Source("file"), group=group)


def _judged(answers: list[tuple[Answer, int | None]], value: Any) -> tuple[Verdict, list[tuple[str, Any]]]:
    hooks = [_hook(index, group) for index, (_, group) in enumerate(answers)]
    seen: list[tuple[str, Any]] = []

    async def run(hook: Hook, current: Any) -> Answer:
        seen.append((hook.name, current))
        return answers[int(hook.name.partition("-")[2])][0]

    return asyncio.run(Evaluation(GATE, hooks, value, run).verdict()), seen


ANSWER = st.builds(
    lambda decision, new, context: Answer(
        decision, reason="r", context=context, is_replacing=new is not None, replacement=new
    ),
    st.sampled_from(["continue", "continue", "continue", "ask", "deny"]),
    st.none() | st.sampled_from([{"n": 1}, {"n": 2}, {"n": True}]),
    st.sampled_from(["", "note"]),
)


@given(st.lists(st.tuples(ANSWER, st.none() | st.integers(1, 2)), min_size=1, max_size=5))
def test_the_fold_opens_nothing(answers: list[tuple[Answer, int | None]]) -> None:
    """Any deny denies and any ask asks, in every order and grouping; what is agreed to was judged by everybody."""
    verdict, seen = _judged(answers, {"n": 0})
    assert len(seen) <= MOST_ROUNDS * len(answers)
    if any(answer.decision == "deny" for answer, _ in answers):
        assert verdict.denied_by
    if verdict.denied_by:
        return
    assert bool(verdict.asked_by) == any(answer.decision == "ask" for answer, _ in answers)
    final = json.dumps(verdict.value)
    for index, (answer, _) in enumerate(answers):
        judged = [json.dumps(value) for name, value in seen if name == f"hook-{index}"]
        assert final in judged or (answer.is_replacing and json.dumps(answer.replacement) == final)
    assert verdict.is_changed == (final != json.dumps({"n": 0}))


@pytest.mark.parametrize("name", sorted(HOOK_EVENTS))
def test_what_is_replaced_has_the_kind_it_had(name: str) -> None:
    """An input stays an object and a prompt a text; what cannot be replaced is not."""
    hook_event = HOOK_EVENTS[name]
    for value in ({"a": 1}, "text", 7, ["x"]):
        fits = {"tool_input": dict, "prompt": str, "result": object}.get(hook_event.replaced or "")
        said = json.dumps({"newContent": value})
        if fits is None:
            assert not read_answer(hook_event, 0, said, "", is_cut=False).is_replacing
        elif isinstance(value, fits):
            assert read_answer(hook_event, 0, said, "", is_cut=False).replacement == value
        else:
            with pytest.raises(AnswerError):
                read_answer(hook_event, 0, said, "", is_cut=False)
