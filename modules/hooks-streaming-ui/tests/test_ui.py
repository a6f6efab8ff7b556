"""What a person sees of a session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_streaming_ui import mount

HOOKS = [{"module": "hooks-streaming-ui"}]
USAGE = "tokens: 1,200 in · 34 out"

MakeSession = Callable[..., AmplifierSession]
MakeStream = Callable[..., Any]


def ui(**keys: Any) -> list[dict[str, Any]]:
    """Return the plan's hooks with keys of the section `ui`."""
    return [{"module": "hooks-streaming-ui", "config": {"ui": keys}}]


async def shown(make_session: MakeSession, stream: Any, *replies: Any, hooks: Any = HOOKS, **options: Any) -> list[str]:
    """Return the lines that a session with these replies leaves on the stream, without durations."""
    async with make_session([*replies], hooks, stream, **options) as session:
        await session.execute("go")
    return [re.sub(r" \(\d+(?:\.\d)? m?s\)", "", line) for line in stream.lines]


@pytest.fixture
def heard(make_stream: MakeStream) -> tuple[MockCoordinator, Any]:
    """Return a coordinator without a display, and the stream it is shown on."""
    coordinator = MockCoordinator()
    coordinator.display_system = None
    stream = make_stream()
    coordinator.register_capability("ui.stream", stream)
    return coordinator, stream


# Thinking and answers


async def test_thinking_is_shown_while_it_streams(make_session: MakeSession, make_stream: MakeStream) -> None:
    """It appears once, line by line, before the answer is complete, and then what the answer used."""
    reply = {"thinking": "First this.\nThen that.", "text": "Done."}
    stream = make_stream()
    async with make_session([reply], HOOKS, stream) as session:
        before: list[list[str]] = []
        session.coordinator.hooks.register("provider:response", lambda e, d: before.append(stream.lines))
        await session.execute("go")
    assert [line.rstrip() for line in before[0]] == ["thinking:", "│ First this.", "│ Then that."]
    assert stream.lines[3:] == [USAGE]


async def test_thinking_that_did_not_stream_is_shown_when_it_is_there(
    make_session: MakeSession, make_stream: MakeStream
) -> None:
    """A provider that does not stream loses nothing but time."""
    reply = {"thinking": "First this.\nThen that.", "text": "Done.", "streams": False}
    lines = await shown(make_session, make_stream(), reply)
    assert lines == ["thinking:", "│ First this.", "│ Then that.", USAGE]


async def test_each_answer_of_a_turn_decides_for_itself(make_session: MakeSession, make_stream: MakeStream) -> None:
    """After an answer that streamed, one that does not is shown all the same."""
    replies = [
        {"thinking": "Streamed.", "calls": [("say", {"output": "x"})]},
        {"thinking": "In one piece.", "text": "Done.", "streams": False},
    ]
    lines = await shown(make_session, make_stream(), *replies)
    assert [line.rstrip() for line in lines if line.startswith("│")] == ["│ Streamed.", "│ In one piece."]


@pytest.mark.parametrize("streams", [True, False])
async def test_thinking_can_be_switched_off(make_session: MakeSession, make_stream: MakeStream, streams: bool) -> None:
    """With `ui.show_thinking_stream: false` nothing of it is shown, streamed or not."""
    reply = {"thinking": "Secret plans.", "text": "Done.", "streams": streams}
    lines = await shown(make_session, make_stream(), reply, hooks=ui(show_thinking_stream=False))
    assert lines == [USAGE]


@pytest.mark.parametrize("streams", [True, False])
async def test_the_answer_is_shown_when_asked_for(
    make_session: MakeSession, make_stream: MakeStream, streams: bool
) -> None:
    """The answer is the app's business, unless `ui.show_text_stream` says otherwise; then it appears once."""
    reply = {"text": "Here is\nthe answer.", "streams": streams}
    assert await shown(make_session, make_stream(), reply) == [USAGE]
    lines = await shown(make_session, make_stream(), reply, hooks=ui(show_text_stream=True))
    assert [line.rstrip() for line in lines] == ["Here is", "the answer.", USAGE]


async def test_an_announced_block_has_one_title(heard: tuple[MockCoordinator, Any]) -> None:
    """A block that is reported when it starts is announced then, and not again when it ends."""
    coordinator, stream = heard
    await mount(coordinator)
    place = {"block_index": 0, "total_blocks": 1}
    await coordinator.hooks.emit("content_block:start", {"block_type": "thinking", **place})
    assert stream.lines == ["thinking:"]
    await coordinator.hooks.emit("content_block:end", {"block": {"type": "thinking", "thinking": "Hm."}, **place})
    assert stream.lines == ["thinking:", "│ Hm."]


async def test_a_broken_stream_is_said(heard: tuple[MockCoordinator, Any]) -> None:
    """What had arrived is shown to the end, then that the rest will not come; the next attempt starts anew."""
    coordinator, stream = heard
    await mount(coordinator)
    emit = coordinator.hooks.emit
    delta = {"block_index": 0, "block_type": "thinking", "sequence": 0}
    await emit("llm:stream_block_delta", {**delta, "request_id": "r-1", "text": "Half a"})
    await emit("llm:stream_aborted", {"request_id": "r-1", "error": {"type": "TimeoutError", "msg": "no more"}})
    assert stream.lines == ["thinking:", "│ Half a", "✘ answer: TimeoutError: no more"]
    block = {"block": {"type": "thinking", "thinking": "Whole."}, "block_index": 0, "total_blocks": 1}
    await emit("content_block:end", block)
    assert stream.lines[3:] == ["thinking:", "│ Whole."]


async def test_half_a_line_is_shown_at_the_end(heard: tuple[MockCoordinator, Any]) -> None:
    """What a provider never finished is shown with the next request, or when the session ends."""
    coordinator, stream = heard
    cleanup = await mount(coordinator)
    for number, text in enumerate(["first", "second"]):
        delta = {"request_id": f"r-{number}", "block_index": 0, "block_type": "thinking", "text": text}
        await coordinator.hooks.emit("llm:stream_block_delta", delta)
        if number == 0:
            await coordinator.hooks.emit("provider:request", {"provider": "p"})
            assert stream.lines == ["thinking:", "│ first"]
    cleanup()
    assert stream.lines[2:] == ["thinking:", "│ second"]


# Tools


async def test_a_call_and_its_result(make_session: MakeSession, make_stream: MakeStream) -> None:
    """A call shows the tool and its input; the result shows which call it was and what came of it."""
    call = ("say", {"output": "one\ntwo", "times": 2})
    lines = await shown(make_session, make_stream(), {"calls": [call]}, {"text": "Done."})
    assert lines == [
        USAGE,
        "▶ say",
        "    output: one",
        "      two",
        "    times: 2",
        "✔ say one",
        "    one",
        "    two",
        USAGE,
    ]


async def test_input_and_result_are_cut_to_some_lines(make_session: MakeSession, make_stream: MakeStream) -> None:
    """By default five lines of each are shown, and how many there are more."""
    text = "\n".join(f"line {number}" for number in range(9))
    lines = await shown(make_session, make_stream(), {"calls": [("say", {"output": text})]}, {"text": "Done."})
    assert lines[2:8] == ["    output: line 0", *(f"      line {n}" for n in (1, 2, 3, 4)), "    … 4 more lines"]
    assert lines[9:15] == [*(f"    line {n}" for n in range(5)), "    … 4 more lines"]


@pytest.mark.parametrize(("limit", "shown_lines"), [(0, 0), (2, 3), (None, 9)])
async def test_the_number_of_lines_is_configured(
    make_session: MakeSession, make_stream: MakeStream, limit: int | None, shown_lines: int
) -> None:
    """`ui.show_tool_lines`: none, some and a count of the rest, or all."""
    text = "\n".join(f"line {number}" for number in range(9))
    replies = [{"calls": [("say", {"output": text})]}, {"text": "Done."}]
    lines = await shown(make_session, make_stream(), *replies, hooks=ui(show_tool_lines=limit))
    assert len([line for line in lines if line.startswith("    ")]) == 2 * shown_lines


async def test_failures_are_distinguished(make_session: MakeSession, make_stream: MakeStream) -> None:
    """A result that is a failure, a tool that crashes and a tool that is not there each say so."""
    calls = [("say", {"fail": "no such file"}), ("say", {"crash": "boom"}), ("sing", {})]
    lines = await shown(make_session, make_stream(), {"calls": calls}, {"text": "Done."})
    failures = [line for line in lines if line.startswith("✘")]
    assert sorted(failures) == [
        "✘ say no such file",
        "✘ say: RuntimeError: boom",
        "✘ sing: unknown_tool: no tool 'sing' is mounted",
    ]
    assert lines[lines.index("✘ say no such file") + 1] == "    no such file"


async def test_a_denied_call_shows_only_its_refusal(make_session: MakeSession, make_stream: MakeStream) -> None:
    """A call that a gate stopped never looks as if it ran."""
    stream = make_stream()
    async with make_session([{"calls": [("say", {"output": "x"})]}, {"text": "Done."}], HOOKS, stream) as session:
        deny = {"action": "deny", "reason": "not today"}
        session.coordinator.hooks.register("tool:pre", lambda e, d: deny, priority=-10)
        await session.execute("go")
    assert [line for line in stream.lines if "say" in line] == [stream.lines[1]]
    assert re.fullmatch(r"✘ say \(.*\): denied: not today", stream.lines[1])


async def test_results_of_other_shapes(heard: tuple[MockCoordinator, Any]) -> None:
    """A result may be a text, a list, or have its say in `content`; durations are in the unit that fits."""
    coordinator, stream = heard
    await mount(coordinator)
    results: list[Any] = [
        "just text",
        [1, 2],
        {"success": True, "output": {"stdout": "a\nb", "code": 0}, "error": None},
        {"success": True, "output": None, "error": None, "content": [{"type": "text", "text": "hi"}]},
        {"success": False, "output": None, "error": {"type": "x"}},
        None,
    ]
    for result in results:
        await coordinator.hooks.emit("tool:post", {"tool_name": "t", "result": result, "duration_ms": 1250})
    assert stream.lines == [
        *("✔ t (1.2 s)", "    just text"),
        *("✔ t (1.2 s)", "    [1, 2]"),
        *("✔ t (1.2 s)", "    stdout: a", "      b", "    code: 0"),
        *("✔ t (1.2 s)", '    [{"type": "text", "text": "hi"}]'),
        *("✘ t (1.2 s)", "    type: x"),
        "✔ t (1.2 s)",
    ]


async def test_usage_can_be_switched_off(make_session: MakeSession, make_stream: MakeStream) -> None:
    """With `ui.show_token_usage: false` there is nothing to see of a plain answer."""
    assert await shown(make_session, make_stream(), {"text": "Done."}, hooks=ui(show_token_usage=False)) == []


async def test_usage_comes_once_per_answer(make_session: MakeSession, make_stream: MakeStream) -> None:
    """Loops report it with every block; it is shown after the last."""
    reply: dict[str, Any] = {"thinking": "Hm.", "text": "Done.", "calls": [("say", {})]}
    lines = await shown(make_session, make_stream(), reply, {"text": "Done."})
    assert lines.count(USAGE) == 2


# Sub-agents


async def test_a_sub_agent_is_set_apart(make_session: MakeSession, make_stream: MakeStream) -> None:
    """Every line of a child session is indented and has the agent's name, which follows the first underscore."""
    reply = {"thinking": "Hm.", "calls": [("say", {"output": "x"})]}
    options = {"session_id": "0af7-b9c7_code_reviewer", "parent_id": "0af7"}
    lines = await shown(make_session, make_stream(), reply, {"text": "Done."}, **options)
    assert lines[0] == "    [code_reviewer] thinking:"
    assert "    [code_reviewer] ▶ say" in lines
    assert all(line.startswith("    [code_reviewer] ") for line in lines)


async def test_a_child_without_a_name(make_session: MakeSession, make_stream: MakeStream) -> None:
    """A child session whose id names no agent is set apart all the same."""
    lines = await shown(make_session, make_stream(), {"text": "Done."}, session_id="c-1", parent_id="p-1")
    assert lines == [f"    [sub-agent] {USAGE}"]


async def test_sessions_side_by_side_do_not_mix_within_a_line(
    make_session: MakeSession, make_stream: MakeStream
) -> None:
    """Five agents that think at the same time on one stream: every write is whole lines of one of them."""
    stream = make_stream()
    texts = {name: " ".join(f"{name}{number}" for number in range(200)) for name in ("ant", "bee", "cat", "dog", "eel")}

    async def run(name: str) -> None:
        options = {"session_id": f"s-1_{name}", "parent_id": "s-1"}
        async with make_session([{"thinking": texts[name], "text": "Done."}], HOOKS, stream, **options) as session:
            await session.execute("go")

    await asyncio.gather(*map(run, texts))
    assert all(write.endswith("\n") for write in stream.writes)
    owners = []
    for line in stream.lines:
        found = re.fullmatch(r"    \[(\w+)\] (.*)", line)
        assert found is not None
        owners.append(found[1])
        assert all(word.startswith(found[1]) for word in re.findall(r"[a-z]{3}\d+", found[2]))
    for name, text in texts.items():
        own = [line.partition("│ ")[2] for line in stream.lines if f"[{name}] │" in line]
        assert " ".join(own).split() == text.split()
    assert owners != sorted(owners)


# Redaction


async def test_what_the_sessions_redaction_masks_is_not_shown(heard: tuple[MockCoordinator, Any]) -> None:
    """Where a redactor is offered, inputs, results, errors and thoughts pass through it."""
    coordinator, stream = heard
    coordinator.register_capability("redaction.scrub", lambda value: _replaced(value, "hunter2", "[masked]"))
    await mount(coordinator)
    emit = coordinator.hooks.emit
    tool = {"tool_name": "t", "tool_input": {"password": "hunter2"}}
    await emit("tool:pre", tool)
    await emit("tool:post", {**tool, "result": {"success": True, "output": "it is hunter2"}})
    await emit("tool:error", {"tool_name": "t", "error": {"type": "E", "msg": "hunter2"}})
    delta = {"request_id": "r", "block_index": 0, "block_type": "thinking", "text": "hunter2, I think\n"}
    await emit("llm:stream_block_delta", delta)
    await emit("llm:stream_aborted", {"request_id": "r", "error": {"type": "E", "msg": "hunter2"}})
    assert "hunter2" not in stream.getvalue()
    assert stream.getvalue().count("[masked]") == 6


def _replaced(value: Any, secret: str, mask: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(field, secret, mask) for key, field in value.items()}
    return value.replace(secret, mask) if isinstance(value, str) else value


async def test_a_redactor_that_fails_lets_nothing_through(heard: tuple[MockCoordinator, Any]) -> None:
    """What cannot be masked is not shown; whether the call went well still is."""
    coordinator, stream = heard

    def broken(value: Any) -> Any:
        raise ValueError("cannot scrub")

    coordinator.register_capability("redaction.scrub", broken)
    await mount(coordinator)
    failed = {"success": False, "output": "hunter2", "error": None}
    await coordinator.hooks.emit("tool:post", {"tool_name": "t", "tool_input": {"a": "hunter2"}, "result": failed})
    assert stream.lines == ["✘ t", "    [not shown: it could not be redacted]"]


# Manners


async def test_events_are_left_as_they_are(heard: tuple[MockCoordinator, Any]) -> None:
    """Watching changes nothing: every verdict is continue, with the data that was sent."""
    coordinator, _ = heard
    await mount(coordinator)
    for event in coordinator.hooks.list_handlers():
        result = await coordinator.hooks.emit(event, {"tool_name": "t", "tool_input": {"x": 1}})
        assert result.action == "continue"
        assert result.data is not None
        assert result.data["tool_input"] == {"x": 1}


@pytest.mark.parametrize(
    "data", [None, {}, {"tool_name": 7, "block": "x", "error": 5, "usage": [], "text": 3}], ids=str
)
async def test_strange_payloads_are_no_error(
    heard: tuple[MockCoordinator, Any], data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever an emitter sends, no handler raises."""
    coordinator, _ = heard
    await mount(coordinator)
    for event in coordinator.hooks.list_handlers():
        await coordinator.hooks.emit(event, data)
    assert "error" not in caplog.text.lower()


async def test_nobody_listens_to_a_stream_that_is_not_shown() -> None:
    """With thinking and answers off, the many events of a stream cost nothing."""
    coordinator = MockCoordinator()
    await mount(coordinator, {"ui": {"show_thinking_stream": False}})
    assert "llm:stream_block_delta" not in coordinator.hooks.list_handlers()


async def test_cleanup_takes_the_handlers_away() -> None:
    """After the cleanup nobody listens, whatever the priority was."""
    coordinator = MockCoordinator()
    cleanup = await mount(coordinator, {"priority": 7})
    assert coordinator.hooks.list_handlers("tool:pre") == {"tool:pre": ["hooks-streaming-ui"]}
    cleanup()
    assert not any(coordinator.hooks.list_handlers().values())


async def test_by_default_observers_come_last() -> None:
    """At priority 100 the handlers see what others made of an event; the config moves them."""
    coordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    coordinator.hooks.register("tool:pre", lambda e, d: None, priority=50, name="other")
    assert coordinator.hooks.list_handlers("tool:pre")["tool:pre"] == ["other", "hooks-streaming-ui"]
    cleanup()
    await mount(coordinator, {"priority": 7})
    assert coordinator.hooks.list_handlers("tool:pre")["tool:pre"] == ["hooks-streaming-ui", "other"]
