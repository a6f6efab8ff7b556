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
        ("- text: a", " must be a mapping with turns, agents, repeat, got list"),
        ("", " must be a mapping with turns, agents, repeat, got NoneType"),
        ("turns: {text: a}", ": turns must be a list, got dict"),
        ("turns: [hello]", ": turns[0] must be a mapping with text, thinking,"),
        ("turns: [{}, {txt: a}]", ": turns[1]: unknown key 'txt': did you mean 'text'?"),
        ("turns: [{text: [a]}]", ": turns[0].text must be text, got ['a']: put it in quotes"),
        ("turns: [{text: yes}]", ": turns[0].text must be text, got True: put it in quotes"),
        ("turns: [{tool_calls: look}]", ": turns[0].tool_calls must be a list, got str"),
        ("turns: [{tool_calls: [{arguments: {}}]}]", ": turns[0].tool_calls[0].name: a tool call needs the name"),
        ("turns: [{tool_calls: [{name: a, args: {}}]}]", ": turns[0].tool_calls[0]: unknown key 'args': did you mean"),
        ("turns: [{tool_calls: [{name: a, arguments: [1]}]}]", ".tool_calls[0].arguments must be a mapping, got list"),
        ("turns: [{tool_calls: [{name: a, arguments: {x: [{on: 1}]}}]}]", ".arguments.x[0]: the key True is not text"),
        ("turns: [{usage: {input_tokens: many}}]", ": turns[0].usage.input_tokens must be a number of tokens, got"),
        ("turns: [{usage: {input_tokens: -1}}]", ".usage.input_tokens must be a number of tokens, got -1"),
        ("turns: [{usage: {tokens: 1}}]", ": turns[0].usage: unknown key 'tokens'"),
        ("turns: [{usage: {cost_usd: free}}]", ".usage.cost_usd must be an amount of US dollars, got 'free'"),
        ("turns: [{usage: {cost_usd: .nan}}]", ".usage.cost_usd must be an amount of US dollars, got nan"),
        ("turns: [{usage: {cost_usd: -1}}]", ".usage.cost_usd must be an amount of US dollars, got -1"),
        ("turns: [{delay_ms: -1}]", ": turns[0].delay_ms must be a number of milliseconds, got -1"),
        ("turns: [{delay_ms: .inf}]", ": turns[0].delay_ms must be a number of milliseconds, got inf"),
        (
            "turns: [{error: {type: RateLimit}}]",
            ".error.type: unknown error 'RateLimit': did you mean 'RateLimitError'?",
        ),
        ("turns: [{error: {type: 1}}]", ": turns[0].error.type: unknown error 1: known: AbortError"),
        ("turns: [{error: {retryable: maybe}}]", ".error.retryable must be true or false, got 'maybe'"),
        ("turns: [{error: boom}]", ": turns[0].error must be a mapping with type, message, retryable"),
        ("turns: [{expect: {contain: a}}]", ": turns[0].expect: unknown key 'contain': did you mean 'contains'?"),
        ("turns: [{expect: {last_role: usr}}]", ".expect.last_role: unknown role 'usr': did you mean 'user'?"),
        ("turns: [{expect: {contains: [{a: 1}]}}]", ".expect.contains must be text, got {'a': 1}"),
        ("agents: [a]", ": agents must map names to lists of entries, got list"),
        ("agents: {a: {text: b}}", ": agents.a must be a list, got dict"),
        ("agents: {a: [{txt: b}]}", ": agents.a[0]: unknown key 'txt'"),
        ("repeat: twice", ": repeat must be true or false, got 'twice'"),
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
