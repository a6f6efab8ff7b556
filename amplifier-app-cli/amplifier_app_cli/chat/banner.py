"""Say at the beginning of a chat what it is with, and how to leave it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_app_cli import __version__
from amplifier_app_cli.chat.ink import Ink
from amplifier_app_cli.chat.layout import wrapped
from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_foundation.paths import Home
    from amplifier_foundation.sessions import SessionRuntime


def banner(
    runtime: SessionRuntime,
    ink: Ink,
    width: int,
    *,
    provider_line: str | None,
    is_trusted_now: bool,
    is_resumed: bool,
    is_drawn: bool = True,
) -> str:
    """Return the lines: session, bundle, provider and why, trust, and what to press where it `is_drawn`, or is not."""
    prepared, composed = runtime.prepared, runtime.prepared.composed
    known = " (resumed)" if is_resumed else ""
    more = "Ctrl-J makes a new line" if is_drawn else "a line that ends in \\ goes on with the next"
    lines = [
        f"amplifier {__version__} · session {runtime.session_id}{known}",
        f"bundle: {composed.name} {composed.version}".rstrip(),
        provider_line or f"provider: {_provider(composed.plan)} (first of the bundle and the settings)",
        f"project: {prepared.project}",
        f"trust: {trust_line(prepared.home, prepared.project, is_trusted_now=is_trusted_now)}",
        f"Enter sends, {more}, /help lists the commands, Ctrl-D leaves.",
    ]
    return ink("dim", "\n".join(part.rstrip() for line in lines for part in wrapped(plain(line), width)))


def trust_line(home: Home, project: Path, *, is_trusted_now: bool) -> str:
    """Return in words whether what the project's files name may run."""
    from amplifier_foundation.trust.projects import TrustStore

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


def _provider(plan: dict[str, Any]) -> str:
    entries = [entry for entry in plan.get("providers") or [] if isinstance(entry, dict) and entry.get("module")]
    if not entries:
        return "none"
    first = min(entries, key=_priority)
    model = (first.get("config") or {}).get("default_model")
    name = str(first.get("id") or first["module"])
    return f"{name}, model {model}" if model else name


def _priority(entry: dict[str, Any]) -> float:
    value = (entry.get("config") or {}).get("priority")
    return value if isinstance(value, int | float) else 100
