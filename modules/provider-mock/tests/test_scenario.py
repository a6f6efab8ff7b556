"""Reading scenario files."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from amplifier_core import llm_errors
from amplifier_module_provider_mock.replies import Reply
from amplifier_module_provider_mock.scenario import ScenarioError, load_scenario

Write = Callable[[str], Path]


def test_an_entry_with_everything(scenario_file: Write) -> None:
    """Every key of the format is understood."""
    path = scenario_file("""
        turns:
          - text: Hello
            thinking: hm
            tool_calls: [{id: c1, name: look, arguments: {where: here, when: 2026-11-15, deep: [{a: 1}]}}, {name: go}]
            usage: {input_tokens: 1, output_tokens: 2, total_tokens: 3, cache_read_tokens: 4, cost_usd: 0.25}
            delay_ms: 1.5
            error: {type: RateLimitError, message: slow, retryable: false, status_code: 429, retry_after: 2}
            expect: {last_role: user, contains: hi, system_contains: [a, b], tools: look}
        repeat: true
    """)
    scenario = load_scenario(path)
    [entry] = scenario.turns
    assert scenario.repeat is True
    assert entry.where == f"{path}: turns[0]"
    assert entry.reply == Reply(
        text="Hello",
        thinking="hm",
        tool_calls=(
            {"id": "c1", "name": "look", "arguments": {"where": "here", "when": "2026-11-15", "deep": [{"a": 1}]}},
            {"id": "", "name": "go", "arguments": {}},
        ),
        usage={
            "input_tokens": 1,
            "output_tokens": 2,
            "total_tokens": 3,
            "cache_read_tokens": 4,
            "cost_usd": Decimal("0.25"),
        },
        delay_ms=1.5,
        error={"type": "RateLimitError", "message": "slow", "retryable": False, "status_code": 429, "retry_after": 2},
    )
    assert entry.expect == {"last_role": "user", "contains": ["hi"], "system_contains": ["a", "b"], "tools": ["look"]}


@pytest.mark.parametrize("text", ["{}", "turns:", "turns: []", "turns: [{}]", "agents: {}", "\ufeffturns: [{text: a}]"])
def test_every_key_is_optional(scenario_file: Write, text: str) -> None:
    """Nothing has to be there, and a byte order mark does no harm."""
    assert not load_scenario(scenario_file(text)).repeat


def test_an_empty_entry_says_nothing(scenario_file: Write) -> None:
    """An entry without keys is an empty answer."""
    [entry] = load_scenario(scenario_file("turns: [{}]")).turns
    assert (entry.reply, entry.expect) == (Reply(), {})


def test_numbers_are_texts_too(scenario_file: Write) -> None:
    """A text that YAML reads as a number is the text that was written, as far as that can be told."""
    [entry] = load_scenario(scenario_file("turns: [{text: 42, expect: {contains: [1, 2.5]}}]")).turns
    assert entry.reply.text == "42"
    assert entry.expect == {"contains": ["1", "2.5"]}


def test_agents_have_entries_of_their_own(scenario_file: Write) -> None:
    """An agent is found by its full name, or by the last part of it."""
    scenario = load_scenario(scenario_file("agents: {explorer: [{text: a}], 'x:writer': [{text: b}]}"))
    for name, text in {"explorer": "a", "foundation:explorer": "a", "x:writer": "b"}.items():
        entries = scenario.entries_for(name)
        assert entries is not None
        assert [entry.reply.text for entry in entries] == [text]
    assert scenario.entries_for("writer") is None


@pytest.mark.parametrize("name", llm_errors.__all__)
def test_every_llm_error_can_be_scripted(scenario_file: Write, name: str) -> None:
    """All classes of errors are known by their names."""
    [entry] = load_scenario(scenario_file(f"turns: [{{error: {{type: {name}}}}}]")).turns
    assert entry.reply.error == {"type": name, "message": "scripted error"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("turn: []", ": unknown key 'turn': did you mean 'turns'?"),
        ("- text: a", " must be a mapping with turns, agents or repeat, got list"),
        ("", " must be a mapping with turns, agents or repeat, got NoneType"),
        ("turns: {text: a}", ": key 'turns' must be a list of mappings, got {'text': 'a'}"),
        ("turns: [hello]", ": key 'turns' must be a list of mappings, got ['hello']"),
        ("turns: [{}, {txt: a}]", ": unknown key 'turns.1.txt': did you mean 'turns.1.text'?"),
        ("turns: [{text: [a]}]", ": key 'turns.0.text' must be text: put it in quotes, got ['a']"),
        ("turns: [{text: yes}]", ": key 'turns.0.text' must be text: put it in quotes, got True"),
        ("turns: [{tool_calls: look}]", ": key 'turns.0.tool_calls' must be a list of mappings, got 'look'"),
        ("turns: [{tool_calls: [{arguments: {}}]}]", ": key 'turns.0.tool_calls.0.name' is missing: it must be text"),
        ("turns: [{tool_calls: [{name: a, args: {}}]}]", ": unknown key 'turns.0.tool_calls.0.args': did you mean"),
        ("turns: [{tool_calls: [{name: a, arguments: [1]}]}]", ".tool_calls.0.arguments' must be a mapping, got [1]"),
        (
            "turns: [{tool_calls: [{name: a, arguments: {x: [{on: 1}]}}]}]",
            ".arguments.x' must be JSON: put its keys in",
        ),
        ("turns: [{usage: {input_tokens: many}}]", ".usage.input_tokens' must be a number of tokens, got 'many'"),
        ("turns: [{usage: {input_tokens: -1}}]", ".usage.input_tokens' must be a number of tokens, got -1"),
        ("turns: [{usage: {tokens: 1}}]", ": unknown key 'turns.0.usage.tokens'"),
        ("turns: [{usage: {cost_usd: free}}]", ".usage.cost_usd' must be an amount of US dollars, got 'free'"),
        ("turns: [{usage: {cost_usd: .nan}}]", ".usage.cost_usd' must be an amount of US dollars, got nan"),
        ("turns: [{usage: {cost_usd: -1}}]", ".usage.cost_usd' must be an amount of US dollars, got -1"),
        ("turns: [{delay_ms: -1}]", ": key 'turns.0.delay_ms' must be a number of milliseconds, got -1"),
        ("turns: [{delay_ms: .inf}]", ": key 'turns.0.delay_ms' must be a number of milliseconds, got inf"),
        (
            "turns: [{error: {type: RateLimit}}]",
            "must be the name of an error, got 'RateLimit': did you mean 'RateLimitE",
        ),
        ("turns: [{error: {type: 1}}]", ": key 'turns.0.error.type' must be the name of an error, got 1"),
        ("turns: [{error: {retryable: maybe}}]", ".error.retryable' must be true or false, got 'maybe'"),
        ("turns: [{error: boom}]", ": key 'turns.0.error' must be a mapping, or null, got 'boom'"),
        (
            "turns: [{expect: {contain: a}}]",
            ": unknown key 'turns.0.expect.contain': did you mean 'turns.0.expect.cont",
        ),
        ("turns: [{expect: {last_role: usr}}]", ".expect.last_role' must be one of system, developer, user, assistant"),
        ("turns: [{expect: {contains: [{a: 1}]}}]", ".expect.contains"),
        ("agents: [a]", ": key 'agents' must be a mapping, got ['a']"),
        ("agents: {a: {text: b}}", ": key 'agents.a' must be a list of mappings, got {'text': 'b'}"),
        ("agents: {a: [{txt: b}]}", ": unknown key 'agents.a.0.txt'"),
        ("repeat: twice", ": key 'repeat' must be true or false, got 'twice'"),
        ("turns: [", ": is not valid YAML: "),
    ],
)
def test_a_mistake_is_named(scenario_file: Write, text: str, message: str) -> None:
    """What cannot be understood is refused with file, entry and key, before anything runs."""
    path = scenario_file(text)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that cannot be read is refused with its path and the reason."""
    with pytest.raises(ScenarioError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_scenario(tmp_path / "none.yaml")
