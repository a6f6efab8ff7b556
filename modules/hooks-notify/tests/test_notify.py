"""When a person is notified, and what they are shown."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession
from amplifier_module_hooks_notify import desktop
from amplifier_module_hooks_notify.desktop import is_remote, notifier_command, terminal_sequence

Show = Callable[..., Any]


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file in place of the terminal; the desktop is another machine's."""
    file = tmp_path / "tty"
    file.touch()
    monkeypatch.setattr(desktop, "_TERMINAL", str(file))
    monkeypatch.setenv("SSH_CONNECTION", "elsewhere")
    return file


@pytest.fixture
def run(scripted_session: Callable[..., AmplifierSession], tmp_path: Path, terminal: Path) -> Any:
    """Give `await run(answer, config=None, **options)`: run a turn, and return what was shown and the events."""

    async def play(answer: str = "All tests pass.", config: Any = None, **options: Any) -> tuple[str, list[Any]]:
        capabilities = options.pop("capabilities", {})
        session = scripted_session(answer, hooks=[{"module": "hooks-notify", "config": config or {}}], **options)
        session.coordinator.register_capability("session.working_dir", str(tmp_path / "shop"))
        for name, value in capabilities.items():
            session.coordinator.register_capability(name, value)
        events: list[Any] = []
        session.coordinator.hooks.register("notify:turn-complete", lambda event, data: events.append(data))
        async with session:
            await session.execute("go")
        return terminal.read_bytes().decode(), events

    return play


async def test_a_turn_is_a_notification(run: Any) -> None:
    """The terminal gets the sequence with project and answer, and the event says the same."""
    shown, [event] = await run(config={"show_device": False})
    assert shown == "\x1b]777;notify;Amplifier · shop;All tests pass.\x1b\\"
    assert (event["project"], event["message"]) == ("shop", "All tests pass.")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, f"Amplifier · {socket.gethostname()} · shop;All tests pass."),
        ({"show_device": False, "show_project": False}, "Amplifier;All tests pass."),
        ({"show_device": False, "show_preview": False}, "Amplifier · shop;The turn has ended"),
        ({"show_device": False, "preview_length": 4}, "Amplifier · shop;All…"),
        ({"show_device": False, "subtitle": "night"}, "Amplifier · shop · night;All tests pass."),
        ({"show_device": False, "show_iteration_count": True}, "Amplifier · shop;All tests pass. · 1 requests"),
    ],
)
async def test_what_is_shown(run: Any, config: dict[str, Any], expected: str) -> None:
    """Each key decides about one part."""
    shown, _ = await run(config=config)
    assert shown == f"\x1b]777;notify;{expected}\x1b\\"


async def test_the_bell_rings_when_wanted(run: Any) -> None:
    """The bell follows the notification."""
    assert (await run(config={"sound": True}))[0].endswith("\x1b\\\a")


@pytest.mark.parametrize(
    "options",
    [
        {"parent_id": "parent"},
        {"config": {"min_iterations": 2}},
        {"capabilities": {"ui.is_focused": lambda: True}},
    ],
)
async def test_some_turns_are_left_out(run: Any, options: dict[str, Any]) -> None:
    """Nothing is shown for child sessions, for short turns, and while the person looks at the terminal."""
    assert await run(**options) == ("", [])


async def test_turns_before_the_last_one_of_a_goal_are_left_out(run: Any, terminal: Path) -> None:
    """A loop that goes on by itself notifies at the end."""
    from amplifier_core.testing import MockCoordinator
    from amplifier_module_hooks_notify import mount

    coordinator: Any = MockCoordinator()
    await mount(coordinator, {})
    await coordinator.hooks.emit("provider:request", {})
    await coordinator.hooks.emit("orchestrator:complete", {"goal_final": False})
    await coordinator.hooks.emit("session:end", {})
    assert terminal.read_bytes() == b""
    await coordinator.hooks.emit("orchestrator:complete", {"goal_final": True})
    await coordinator.hooks.emit("session:end", {})
    assert terminal.read_bytes().startswith(b"\x1b]777;notify;")


async def test_secrets_are_not_shown(run: Any) -> None:
    """What the log would mask is masked here."""
    shown, _ = await run("The key is sk-ant-api03-" + "a1B2" * 24)
    assert "a1B2a1B2" not in shown


async def test_without_a_terminal_the_session_goes_on(run: Any, terminal: Path, caplog: Any) -> None:
    """A notification that nothing shows is a warning."""
    terminal.unlink()
    terminal.mkdir()
    with pytest.raises(IsADirectoryError):
        await run()
    assert "neither a terminal nor a notifier" in caplog.text


@given(st.text(), st.text())
def test_no_text_ends_the_sequence(title: str, body: str) -> None:
    """Whatever a model answers or a config says, the sequence has three parts and no further control characters."""
    shown = terminal_sequence(title, body)
    assert shown.count(b";") == 3
    assert shown.count(b"\x1b") == 2
    assert shown[2:-2].decode("utf-8", "replace").isprintable()


def test_the_notifier_gets_texts_as_arguments() -> None:
    """No text is read as an option, as part of a script or as markup."""
    command = notifier_command("--help", 'x" & quit', "linux")
    assert command is not None
    assert command[-3:] == ["--", "--help", 'x" &amp; quit']
    linked = notifier_command("t", '<a href="http://example.com">x</a>', "linux")
    assert linked is not None
    assert "<" not in linked[-1]
    mac = notifier_command("t", 'x" & quit', "darwin")
    assert mac is not None
    assert 'x" & quit' not in mac[2]
    assert notifier_command("t", "b", "plan9") is None


def test_only_the_own_desktop_is_used() -> None:
    """Over a remote connection the terminal alone can reach the person."""
    assert is_remote({"SSH_TTY": "/dev/pts/1", "DISPLAY": ":0"})
    assert is_remote({}) == (os.uname().sysname != "Darwin")
    assert not is_remote({"DISPLAY": ":0"})
