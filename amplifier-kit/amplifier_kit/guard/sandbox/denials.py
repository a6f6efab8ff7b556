"""Recognise from the output of a command that the sandbox blocked it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: Messages of the C library and of languages with their own wording. Compiled when a command has failed.
_NETWORK: Final = (
    r"Network is unreachable|Temporary failure in name resolution|Name or service not known|Could(?: not|n't) resolve"
    r"|No address associated with hostname|nodename nor servname|ENETUNREACH|EAI_AGAIN|ENOTFOUND"
    r"|Temporary failure resolving|unable to resolve host|no such host|dial tcp: lookup|dns error"
    r"|unable to look up|Failed to resolve|unknown host|UnknownHostException"
)
_LOCAL: Final = (
    r"(?:127\.0\.0\.1|localhost|\[?::1\]?)[^\n]{0,120}(?:Connection refused|Couldn't connect)|ECONNREFUSED"
    r"|Failed to connect to (?:127\.0\.0\.1|localhost)"
)
_FILES: Final = r"Read-only file system|EROFS|os error 30\b|Device or resource busy"
#: Characters that are searched: the end of the output, where the reason usually is.
_SPAN: Final = 20_000


class Blocked(NamedTuple):
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
            "outside of the project, and in what decides about the session itself (.amplifier, .claude, .agents, "
            ".mcp.json, .git/hooks, .git/config), nothing can be written",
            "To allow another folder: `sandbox: {{writable: [FOLDER]}}` in {where}.",
        ),
    ),
    (
        _LOCAL,
        Blocked(
            "network",
            "every command has a network of its own, in which no server runs but those it starts itself",
            "Start server and client in one command, or allow the host's network: `sandbox: {{network: true}}` in "
            "{where}.",
        ),
    ),
)


def blocked_by(text: str, *, network: bool) -> Blocked | None:
    """Return what the sandbox blocked, judging by the output of a failed command, or None."""
    end = text[-_SPAN:]
    for pattern, blocked in _KINDS:
        if (blocked.kind != "network" or not network) and re.search(pattern, end, re.IGNORECASE):
            return blocked
    return None
