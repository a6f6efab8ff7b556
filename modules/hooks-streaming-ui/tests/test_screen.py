"""Where lines go, and what may never get there."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_streaming_ui import mount
from amplifier_module_hooks_streaming_ui.screen import Line, Screen

#: Clear the screen, change the title, write to the clipboard, paint red, hide what follows.
HOSTILE = "a\x1b[2J\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x1b\\\x9b31mb\x1bP+q\x1b\\\x08\x00\u202ec"


class Display:
    """Keep messages as an app's display would get them."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, str]] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.messages.append((message, level, source))


def coordinator_with(*, display: Any = None, stream: Any = None) -> MockCoordinator:
    """Return a coordinator with this display and this stream."""
    made: MockCoordinator = MockCoordinator()
    made.display_system = display
    if stream is not None:
        made.register_capability("ui.stream", stream)
    return made


async def test_the_apps_display_comes_first(make_stream: Callable[..., Any]) -> None:
    """With a display every event is one message to it, with level and source, and no stream is touched."""
    display, stream = Display(), make_stream()
    coordinator = coordinator_with(display=display, stream=stream)
    await mount(coordinator)
    await coordinator.hooks.emit("tool:pre", {"tool_name": "t", "tool_input": {"a": 1, "b": 2}})
    await coordinator.hooks.emit("tool:post", {"tool_name": "t", "result": {"success": False, "output": "no"}})
    assert display.messages == [
        ("▶ t\n    a: 1\n    b: 2", "info", "hook:hooks-streaming-ui"),
        ("✘ t\n    no", "warning", "hook:hooks-streaming-ui"),
    ]
    assert stream.writes == []


async def test_a_display_that_comes_later_is_used(make_stream: Callable[..., Any]) -> None:
    """Where lines go is decided when they are shown, not when the module is mounted."""
    stream = make_stream()
    coordinator = coordinator_with(stream=stream)
    await mount(coordinator)
    coordinator.display_system = display = Display()
    await coordinator.hooks.emit("tool:pre", {"tool_name": "t"})
    assert (display.messages[0][0], stream.writes) == ("▶ t", [])


async def test_without_display_and_stream_standard_error_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output stays empty, whatever happens: it belongs to answers and to machines."""
    coordinator = coordinator_with()
    cleanup = await mount(coordinator, {"ui": {"show_text_stream": True}})
    delta = {"request_id": "r", "block_index": 0, "block_type": "text", "text": "hello"}
    await coordinator.hooks.emit("llm:stream_block_delta", delta)
    for event in coordinator.hooks.list_handlers():
        await coordinator.hooks.emit(event, {"tool_name": "t", "usage": {"input_tokens": 1}})
    cleanup()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "▶ t" in printed.err
    assert "hello" in printed.err


async def test_no_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A process without one shows nothing."""
    monkeypatch.setattr(sys, "stderr", None)
    Screen(coordinator_with(), "test").show([Line("x")])
    assert caplog.text == ""


# What may never get there


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("place", ["tool_name", "tool_input", "result", "error", "text", "thinking", "session_id"])
async def test_escapes_of_others_never_reach_the_terminal(
    make_stream: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: str, is_terminal: bool
) -> None:
    """Wherever a payload has them, escapes and controls are gone; what is left to read stays."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = make_stream(is_terminal=is_terminal)
    coordinator = coordinator_with(stream=stream)
    cleanup = await mount(coordinator, {"ui": {"show_text_stream": True}})
    fields: dict[str, Any] = {"tool_name": "t", "session_id": "s"}
    fields |= {"block": {"type": "thinking", "thinking": "x"}, "block_type": "text", "text": "x"}
    hostile: dict[str, Any] = {"session_id": f"s_{HOSTILE}", "tool_input": {HOSTILE: HOSTILE}}
    fields[place] = hostile.get(place, HOSTILE)
    if place == "thinking":
        fields["block"] = {"type": "thinking", "thinking": HOSTILE}
    for event in coordinator.hooks.list_handlers():
        await coordinator.hooks.emit(event, fields)
    cleanup()
    assert "abc" in stream.getvalue()
    assert [char for char in stream.getvalue() if not char.isprintable() and char != "\n"] == []


async def test_escapes_do_not_reach_a_display_either() -> None:
    """A display gets plain text: it may be a terminal too."""
    display = Display()
    coordinator = coordinator_with(display=display)
    await mount(coordinator)
    await coordinator.hooks.emit("tool:pre", {"tool_name": HOSTILE, "tool_input": {"x": f"1\r\n{HOSTILE}"}})
    assert display.messages[0][0] == "▶ abc\n    x: 1\n      abc"


def test_a_line_is_one_line(make_stream: Callable[..., Any]) -> None:
    """A line break inside a line cannot make a second one that looks like ours."""
    stream = make_stream()
    Screen(coordinator_with(stream=stream), "test").show([Line("a\nb\rc\u2028d")], label="[x\ny] ")
    assert stream.getvalue() == "[x y] a b c d\n"


# Colours


def painted(stream: Any) -> str:
    """Return what one line that may be coloured leaves on a stream."""
    Screen(coordinator_with(stream=stream), "test").show([Line("x", "bad"), Line("y")])
    return str(stream.getvalue())


def test_colours_on_a_terminal(make_stream: Callable[..., Any]) -> None:
    """A terminal gets colours, each line ended with its own reset."""
    assert painted(make_stream(is_terminal=True)) == "\x1b[31mx\x1b[0m\ny\n"


def test_no_colours_elsewhere(make_stream: Callable[..., Any]) -> None:
    """A file or a pipe gets none."""
    assert painted(make_stream(is_terminal=False)) == "x\ny\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("NO_COLOR", "0"), ("TERM", "dumb")])
def test_no_colours_where_they_are_not_wanted(
    make_stream: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """NO_COLOR, whatever its value, and a dumb terminal are honoured."""
    stream = make_stream(is_terminal=True)
    monkeypatch.setenv(name, value)
    assert painted(stream) == "x\ny\n"


def test_an_empty_no_color_means_nothing(make_stream: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As its standard says, only a value that is not empty counts."""
    stream = make_stream(is_terminal=True)
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b[31m" in painted(stream)


# Trouble


async def test_a_stream_that_fails_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A closed stream does not reach the session, and is complained about a single time."""
    stream = io.StringIO()
    stream.close()
    coordinator = coordinator_with(stream=stream)
    await mount(coordinator)
    for _ in range(3):
        result = await coordinator.hooks.emit("tool:pre", {"tool_name": "t"})
        assert result.action == "continue"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "hook:hooks-streaming-ui cannot write to" in caplog.text


async def test_after_trouble_it_goes_on(make_stream: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """A display that fails once shows the next message again."""

    class Moody(Display):
        def show_message(self, message: str, level: str, source: str = "hook") -> None:
            if "first" in message:
                raise OSError("busy")
            super().show_message(message, level, source)

    display = Moody()
    screen = Screen(coordinator_with(display=display), "test")
    screen.show([Line("first")])
    screen.show([Line("second")])
    assert [message for message, *_ in display.messages] == ["second"]
    assert "busy" in caplog.text


@pytest.mark.parametrize("encoding", ["ascii", "cp949", "latin-1"])
def test_a_stream_that_cannot_write_everything_writes_the_rest(encoding: str) -> None:
    """Letters that its encoding does not have become question marks."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Screen(coordinator_with(stream=stream), "test").show([Line("✔ t \ud800 ok")])
    assert raw.getvalue().decode(encoding).endswith(" t ? ok\n")


def test_nothing_to_show_writes_nothing(make_stream: Callable[..., Any]) -> None:
    """No lines, no write."""
    stream = make_stream()
    Screen(coordinator_with(stream=stream), "test").show([])
    assert stream.writes == []
