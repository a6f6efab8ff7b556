"""What a user asks for when a prompt is run, and the parts of the session that come of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.app import App

if TYPE_CHECKING:
    from amplifier_foundation.prepare import Options
    from amplifier_foundation.prepared import Prepared
    from amplifier_foundation.sessions import SavedSession


@dataclass(frozen=True)
class RunRequest:
    """The wishes of one run."""

    bundle: str | None = None
    provider: str | None = None
    model: str | None = None
    #: The longest answer, in tokens.
    max_tokens: int | None = None
    #: A session to go on with: its id, the beginning of it, its name or its folder.
    resume: str | None = None
    locked: bool = False
    offline: bool = False
    trust: bool = False
    allow_missing_modules: bool = False
    budget: Mapping[str, Any] = field(default_factory=dict)
    images: tuple[Path, ...] = ()

    def options(self, app: App) -> Options:
        """Return what the library needs to prepare the session."""
        from amplifier_foundation.prepare import Options

        return Options(
            app.home,
            app.project,
            bundle=self.bundle,
            locked=self.locked,
            offline=self.offline,
            trust=self.trust,
            allow_missing=self.allow_missing_modules,
            on_progress=app.inform,
        )


@dataclass(frozen=True)
class Parts:
    """A session that is ready to be brought up."""

    prepared: Prepared
    saved: SavedSession | None
    #: Which provider answers, why, and how to change that.
    provider_line: str
    #: What the user should know.
    notes: tuple[str, ...]


def load_keys(app: App) -> None:
    """Put the user's keys into the environment, where they are not set already."""
    from amplifier_foundation.settings.keys import KeyStore

    keys = KeyStore(app.home, os.environ)
    keys.apply(os.environ)
    for warning in keys.warnings:
        app.inform(f"warning: {warning}")


async def make_parts(app: App, request: RunRequest) -> Parts:
    """Prepare the session that the request asks for, a new one or one that goes on. Raises FoundationError."""
    from amplifier_foundation.prepare import prepare, prepare_saved
    from amplifier_foundation.sessions import load_session
    from amplifier_foundation.sessions.store import SessionStore

    load_keys(app)
    options = request.options(app)
    saved = None
    if request.resume is not None:
        saved = load_session(SessionStore(app.home).find(request.resume, app.project).folder)
        prepared = await prepare_saved(saved, options)
    else:
        prepared = await prepare(options)
    prepared, line = _with_provider(app, request, prepared, saved)
    notes = (*(saved.notes if saved else ()), *prepared.warnings)
    return Parts(prepared, saved, line, notes)


def _with_provider(
    app: App, request: RunRequest, prepared: Prepared, saved: SavedSession | None
) -> tuple[Prepared, str]:
    """Return the session with the provider that answers first in line, and the line that says why."""
    from amplifier_app_cli.provider_choice import apply, choose

    plan = prepared.composed.plan
    choice = choose(plan, app.settings, os.environ, explicit=request.provider, model=request.model)
    is_asked_for = request.provider is not None or request.model is not None or request.max_tokens is not None
    if saved is not None and saved.recorded is not None and not is_asked_for:
        # What was recorded answers; that it is another one than would be chosen now is told as a difference.
        return prepared, choice.line
    if is_asked_for or not _answers_already(choice.provider, plan):
        plan = apply(choice, plan)
    if request.max_tokens is not None:
        plan = {
            **plan,
            "providers": [_limited(entry, choice.provider, request.max_tokens) for entry in plan["providers"]],
        }
    return replace(prepared, composed=replace(prepared.composed, plan=plan)), choice.line


def _answers_already(provider: str, plan: Mapping[str, Any]) -> bool:
    """Tell whether a provider is the only one of a plan, so that nothing needs to be said in the plan."""
    entries = plan.get("providers") or []
    return len(entries) == 1 and provider in (entries[0].get("id"), entries[0].get("module"))


def _limited(entry: dict[str, Any], provider: str, max_tokens: int) -> dict[str, Any]:
    if provider not in (entry.get("id"), entry.get("module")):
        return entry
    return {**entry, "config": {**(entry.get("config") or {}), "max_tokens": max_tokens}}
