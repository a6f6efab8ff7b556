"""Take out of an environment what leads to things that are not there inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: Ways to processes of the host, and to folders that are fresh inside.
_DOORS: Final = frozenset(
    (
        "DBUS_SESSION_BUS_ADDRESS",
        "DBUS_SYSTEM_BUS_ADDRESS",
        "DISPLAY",
        "DOCKER_HOST",
        "GNOME_KEYRING_CONTROL",
        "GPG_AGENT_INFO",
        "GPG_TTY",
        "SSH_AGENT_PID",
        "SSH_AUTH_SOCK",
        "SSH_TTY",
        "TEMP",
        "TMP",
        "TMPDIR",
        "TMUX",
        "VSCODE_GIT_ASKPASS_MAIN",
        "VSCODE_GIT_IPC_HANDLE",
        "VSCODE_IPC_HOOK_CLI",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
    )
)
#: Where to go to leave the network: of no use without one, and often with a password.
_PROXIES: Final = frozenset(("all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy"))


def inner_environment(environment: Mapping[str, str], *, network: bool, kept: Iterable[str] = ()) -> dict[str, str]:
    """Return an environment without what only means something outside; `kept` names what stays nevertheless."""
    keep = set(kept)
    given = {
        name: value
        for name, value in environment.items()
        if name in keep or (name not in _DOORS and (network or name.lower() not in _PROXIES))
    }
    if given.get("HOME", "/") in ("", "/"):
        given["HOME"] = "/tmp"
    return given
