"""Errors of the sandbox, and what a failed command's output says about it."""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.struct import FrozenStruct

#: Messages of the C library and of languages with their own wording. Compiled when a command has failed.
_NETWORK: Final = (
    r"Network is unreachable|Temporary failure in name resolution|Name or service not known|Could(?: not|n't) resolve"
    r"|No address associated with hostname|nodename nor servname|\b(?:ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b"
    r"|Temporary failure resolving|unable to resolve host|no such host|dial tcp: lookup|dns error"
    r"|unable to look up|Failed to resolve|unknown host|UnknownHostException"
)
_LOOPBACK: Final = (
    r"(?:127\.0\.0\.1|localhost|\[?::1\]?)[^\n]{0,120}(?:Connection refused|Couldn't connect)|\bECONNREFUSED\b"
    r"|Failed to connect to (?:127\.0\.0\.1|localhost)"
)
_FILES: Final = r"Read-only file system|\bEROFS\b|os error 30\b|Device or resource busy"
#: Characters of the end of the output that are searched: that is where the reason usually is.
_SEARCHED: Final = 20_000


class SandboxError(Exception):
    """A command cannot be run in the sandbox; the text says why and what to do, `code` is stable."""

    def __init__(self, message: str, code: str = "sandbox_failed") -> None:
        super().__init__(message)
        self.code = code


class SandboxRequiredError(SandboxError):
    """A sandbox is required and not available: the command is not run."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        message = (
            f"the sandbox is required but not available: {reason}. Install or repair bubblewrap (`apt install "
            "bubblewrap`, `dnf install bubblewrap`), or set `sandbox: auto` to run commands without it"
        )
        super().__init__(message, "sandbox_required")


class Blocked(FrozenStruct):
    """A blocked action: `filesystem`, `network` or `required`, the reason, and how to allow it."""

    kind: str
    reason: str
    remedy: str

    def message(self, where: str) -> str:
        """Return one line for the user or the model; `where` names the config that can allow it."""
        return f"The sandbox blocked it: {self.reason}. {self.remedy.format(where=where)}"


_KINDS: Final = (
    (
        _NETWORK,
        Blocked("network", "there is no network inside", "To allow it: `sandbox: {{network: true}}` in {where}."),
    ),
    (
        _FILES,
        Blocked(
            "filesystem",
            "everything outside of the project is read-only, and so are the files that control sessions and git "
            "(.amplifier, .claude, .agents, .mcp.json, .git/hooks, .git/config)",
            "To allow another folder: `sandbox: {{writable: [FOLDER]}}` in {where}.",
        ),
    ),
    (
        _LOOPBACK,
        Blocked(
            "network",
            "every command has a separate network, in which only servers run that it starts itself",
            "Start server and client in one command, or allow the host's network: `sandbox: {{network: true}}` in "
            "{where}.",
        ),
    ),
)


def blocked_by(text: str, *, network: bool) -> Blocked | None:
    """Return what the sandbox blocked according to the output of a failed command, or None."""
    end = text[-_SEARCHED:]
    for pattern, blocked in _KINDS:
        if (blocked.kind != "network" or not network) and re.search(pattern, end, re.IGNORECASE):
            return blocked
    return None
