"""Say at the beginning of a chat what it is with, and how to leave it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_app_cli import __version__
from amplifier_app_cli.chat.layout import wrapped
from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.screen import Screen
    from amplifier_app_cli.session_app import SessionApp
    from amplifier_foundation.paths import Home


def banner(session: SessionApp, screen: Screen) -> str:
    """Return the lines: session, bundle, provider and why, project, trust, and which keys to press."""
    prepared, composed = session.parts.prepared, session.parts.prepared.composed
    resumed = " (resumed)" if session.parts.saved is not None else ""
    more = "Ctrl-J makes a new line" if screen.has_live_part else "a line that ends in \\ goes on with the next"
    trust = trust_line(prepared.home, prepared.project, is_trusted_now=session.request.trust)
    lines = [
        f"amplifier {__version__} · session {session.runtime.session_id}{resumed}",
        f"bundle: {composed.name} {composed.version}".rstrip(),
        session.parts.provider_line,
        f"project: {prepared.project}",
        f"trust: {trust}",
        f"Enter sends, {more}, /help lists the commands, Ctrl-D leaves.",
    ]
    return screen.ink("dim", "\n".join(part.rstrip() for line in lines for part in wrapped(plain(line), screen.width)))


def trust_line(home: Home, project: Path, *, is_trusted_now: bool) -> str:
    """Return in words whether what the project's files name may run."""
    from amplifier_foundation.trust.store import TrustStore

    if is_trusted_now:
        return "trusted for this run"
    trust = TrustStore(home).state(project)
    if trust.problem:
        return f"not trusted: {trust.problem}"
    if trust.state == "changed":
        return f"not trusted any more: {', '.join(trust.changed[:3])} changed; `amplifier trust` trusts it again"
    return (
        "trusted" if trust.trusted else "not trusted: its modules and hooks do not run; `amplifier trust` changes that"
    )
