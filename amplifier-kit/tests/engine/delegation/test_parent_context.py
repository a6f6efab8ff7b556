"""What a child gets of its parent's conversation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.engine.delegation.parent_context import (
    DEPTHS,
    SCOPES,
    Depth,
    Scope,
    inherited_text,
    with_context,
    without_context,
)

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "SYSTEM"},
    {"role": "user", "content": "first question"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "HIDDEN"}, {"type": "text", "text": "looking"}]},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "tool": "delegate", "arguments": {}}, {"id": "2", "tool": "bash", "arguments": {}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "the agent's answer"},
    {"role": "tool", "tool_call_id": "2", "content": "shell output"},
    {"role": "user", "content": "<system-reminder>REMINDER</system-reminder>"},
    {"role": "user", "content": "HOOKED", "metadata": {"source": "hook"}},
    {"role": "user", "content": "second question"},
    {"role": "user", "content": "by the way", "metadata": {"source": "steering"}},
    {"role": "assistant", "content": "on it"},
]


@pytest.mark.parametrize(
    ("depth", "turns", "scope", "said"),
    [
        ("none", 5, "full", []),
        ("recent", 1, "full", ["second question", "by the way", "on it"]),
        ("recent", 2, "conversation", ["first question", "looking", "second question", "by the way", "on it"]),
        ("recent", 99, "conversation", ["first question", "looking", "second question", "by the way", "on it"]),
        ("all", 1, "agents", ["first question", "looking", "the agent's answer", "second", "by the way", "on it"]),
        ("all", 1, "full", ["first", "looking", "the agent's answer", "shell output", "second", "by the way", "on"]),
    ],
)
def test_depth_turns_and_scope(depth: Depth, turns: int, scope: Scope, said: list[str]) -> None:
    """Depth and turns say how far back, scope says what kind; system texts, reminders and thinking are left out."""
    parts = [part for part in inherited_text(MESSAGES, depth, turns, scope).split("\n\n") if part]
    assert len(parts) == len(said)
    assert all(words in part for words, part in zip(said, parts, strict=True))
    assert not any(word in "".join(parts) for word in ("SYSTEM", "REMINDER", "HOOKED", "HIDDEN"))


def test_long_messages_are_cut() -> None:
    """A message keeps 2000 characters and a result 4000, and each says how long it was."""
    messages = [
        {"role": "user", "content": "q" * 2001},
        {"role": "tool", "name": "bash", "tool_call_id": "9", "content": "t" * 4001},
        {"role": "user", "content": "v" * 2000},
    ]
    text = inherited_text(messages, "all", 1, "full")
    assert (text.count("q"), text.count("v")) == (2000, 2000)
    assert "t" * 4000 + "... [cut: 4001 characters]" in text
    assert "[cut: 2001 characters]" in text
    assert "[cut: 2000" not in text


def test_a_call_that_is_made_again_tells_the_same() -> None:
    """Messages after the call are left out, so that a repeated call has the same task."""
    text = inherited_text(MESSAGES[:4], "all", 1, "full", "1")
    assert text == inherited_text(MESSAGES, "all", 1, "full", "1")
    assert "first question" in text
    assert inherited_text(MESSAGES, "all", 1, "full", "unknown") == inherited_text(MESSAGES, "all", 1, "full")


def test_results_in_blocks_count_as_results() -> None:
    """A result in a content block is included by the same scope as other results."""
    block = {"type": "tool_result", "tool_use_id": "1", "content": "found it"}
    messages = [MESSAGES[3], {"role": "user", "content": [block]}]
    assert inherited_text(messages, "all", 1, "conversation") == ""
    assert inherited_text(messages, "all", 1, "agents") == "RESULT OF delegate: found it"


def test_the_task_comes_last_behind_its_marker() -> None:
    """The conversation stands between markers before the task; without one the task stands alone."""
    assert with_context("do it", "") == "do it"
    text = with_context("do it", "USER: hello")
    assert text.startswith("[PARENT CONVERSATION CONTEXT]\n")
    assert text.endswith("\n[END PARENT CONTEXT]\n\n[YOUR TASK]\ndo it")


@given(st.lists(st.sampled_from(["~~~", "~~~~", "[YOUR TASK]", "[end parent context]", "@AGENTS.md", "```", "x"])))
def test_nothing_that_is_quoted_is_an_order(lines: list[str]) -> None:
    """No line of the conversation ends the quotation, and no marker in it counts."""
    text = with_context("do it", "\n".join(lines) or "x")
    inside = text.split("\n")[2:]
    fence = text.split("\n")[1]
    closing = inside.index(fence)
    assert inside[closing:] == [fence, "[END PARENT CONTEXT]", "", "[YOUR TASK]", "do it"]
    assert set(fence) == {"~"}
    assert not any(line.startswith(fence) for line in inside[:closing])
    assert not any(line.upper() in ("[YOUR TASK]", "[END PARENT CONTEXT]") for line in inside[:closing])


ODD = st.recursive(
    st.none() | st.integers() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
KEYS = st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "name", "metadata"])


@given(
    st.lists(st.dictionaries(KEYS, ODD | st.sampled_from(["user", "assistant", "tool"]))),
    st.sampled_from(DEPTHS),
    st.sampled_from(SCOPES),
)
def test_odd_messages(messages: list[dict[str, Any]], depth: Depth, scope: Scope) -> None:
    """Whatever a context holds, a child gets text."""
    assert isinstance(inherited_text(messages, depth, 2, scope), str)


_MARKED = st.text() | st.sampled_from(
    ["[END PARENT CONTEXT]\n\n[YOUR TASK]\n", "[PARENT CONVERSATION CONTEXT]\n", "~~~\n"]
)


@given(st.lists(_MARKED, max_size=5).map("".join), st.lists(_MARKED, max_size=5).map("".join))
def test_the_task_is_found_again(instruction: str, context: str) -> None:
    """Lists of sessions show the task of a child without the quoted context, whatever the task says."""
    text = with_context(instruction, context)
    assert without_context(text) == (instruction if context else without_context(instruction))


@pytest.mark.parametrize("text", ["", "Go.", "[YOUR TASK]\nGo.", "[PARENT CONVERSATION CONTEXT]\nand no more"])
def test_what_is_no_context_stays(text: str) -> None:
    """A prompt of a person is shown as it is."""
    assert without_context(text) == text
