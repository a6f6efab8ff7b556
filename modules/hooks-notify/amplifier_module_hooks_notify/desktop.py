"""Show a notification on the desktop of the person at the terminal."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from amplifier_kit.engine.turn_notice import TurnNotice
from amplifier_module_hooks_notify.config import NotifyConfig

__all__ = ["EVENT", "NAME", "Desktop", "notifier_command", "terminal_sequence"]

NAME: Final = "hooks-notify"
EVENT: Final = "notify:turn-complete"
#: The capability of an app that knows whether its terminal has the focus.
_FOCUS: Final = "ui.is_focused"
_SECONDS: Final = 5.0
_TERMINAL: Final = "/dev/tty"


class Desktop:
    """Show the notices of one session."""

    def __init__(self, coordinator: Any, settings: NotifyConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings

    async def send(self, notice: TurnNotice) -> None:
        """Show a notice; raises OSError when neither a terminal nor a notifier shows it."""
        ask = self._coordinator.get_capability(_FOCUS)
        if self._settings.suppress_if_focused and callable(ask) and ask() is True:
            return
        title, body = self.title(notice), self.body(notice)
        await self._coordinator.hooks.emit(EVENT, {"project": notice.project, "message": body})
        is_shown = _write(terminal_sequence(title, body, rings=self._settings.sound))
        if not is_remote(os.environ) and (command := notifier_command(title, body)) is not None:
            is_shown |= await _run(command)
        if not is_shown:
            raise OSError("there is neither a terminal nor a notifier of the system")

    def title(self, notice: TurnNotice) -> str:
        """Return the title: who, where, and what."""
        device = socket.gethostname() if self._settings.show_device else ""
        project = notice.project if self._settings.show_project else ""
        return " · ".join(part for part in ("Amplifier", device, project, self._settings.subtitle) if part)

    def body(self, notice: TurnNotice) -> str:
        """Return what the person reads below the title."""
        longest, text = self._settings.preview_length, notice.preview if self._settings.show_preview else ""
        shown = text if len(text) <= longest else f"{text[:longest].rstrip()}…"
        count = f"{notice.iterations} requests" if self._settings.show_iteration_count else ""
        state = "" if notice.status in ("", "success") else notice.status
        return " · ".join(part for part in (state, shown or "The turn has ended", count) if part)


def terminal_sequence(title: str, body: str, *, rings: bool = False) -> bytes:
    """Return the sequence (OSC 777) that terminals show as a notification, with the bell if it is to ring."""
    # A semicolon ends a part, a control character the sequence.
    safe = ("".join(each for each in part if each.isprintable()).replace(";", ",") for part in (title, body))
    bell = "\a" if rings else ""
    return f"\x1b]777;notify;{';'.join(safe)}\x1b\\{bell}".encode("utf-8", "replace")


def notifier_command(title: str, body: str, platform: str = sys.platform) -> list[str] | None:
    """Return the command that shows a notification on this system, None where there is none."""
    if platform == "darwin":
        # As arguments of the script, so that no text is read as part of it.
        script = "on run {title, body}\ndisplay notification body with title title\nend run"
        return ["osascript", "-e", script, title, body]
    if platform.startswith("linux"):
        # Desktops read the body, and only it, as markup with links and images.
        return ["notify-send", "--app-name=Amplifier", "--", title, escape(body, quote=False)]
    return None


def is_remote(environ: Mapping[str, str]) -> bool:
    """Return whether the person sits at another machine, or no desktop is there."""
    is_elsewhere = any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY"))
    has_desktop = sys.platform == "darwin" or any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return is_elsewhere or not has_desktop


def _write(sequence: bytes) -> bool:
    """Write to the terminal of this process; return whether there is one."""
    try:
        descriptor = os.open(_TERMINAL, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        os.write(descriptor, sequence)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


async def _run(command: list[str]) -> bool:
    from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_command

    try:
        done = await run_command(command, timeout=_SECONDS, env=dict(os.environ))
    except (OSError, CommandTimeoutError):
        return False
    return done.returncode == 0
