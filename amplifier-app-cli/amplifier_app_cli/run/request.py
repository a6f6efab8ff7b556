"""What a user asks for when a prompt is run, and the parts of the session that come of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_app_cli.app import App

if TYPE_CHECKING:
    from amplifier_app_cli.providers.choice import Choice
    from amplifier_app_cli.run.output_form import OutputForm
    from amplifier_foundation.bundles.layer import Layer
    from amplifier_foundation.plan.prepare import Options
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.prompt.access import PromptAccess
    from amplifier_foundation.sessions import SavedSession
    from amplifier_foundation.settings import Settings


_SAFE: Final = "safe mode: the minimal bundle, without your settings, modules, hooks, agents and tools"


class RunRequest(NamedTuple):
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
    budget: Mapping[str, Any] = MappingProxyType({})
    images: tuple[Path, ...] = ()
    #: A file with the JSON schema that the answer must fit.
    output_schema: str | None = None

    def options(self, app: App) -> Options:
        """Return what the library needs to prepare the session."""
        from amplifier_foundation.plan.prepare import Options

        return Options(
            app.home,
            app.project,
            bundle=_plainest() if app.is_safe else self.bundle,
            bare=app.is_safe,
            locked=self.locked,
            offline=self.offline,
            trust=self.trust,
            allow_missing=self.allow_missing_modules,
            on_progress=app.inform,
        )


class Parts(NamedTuple):
    """A session that is ready to be brought up."""

    prepared: Prepared
    saved: SavedSession | None
    #: Which provider answers, why, and how to change that.
    provider_line: str
    #: What the user should know.
    notes: tuple[str, ...]
    #: Content blocks of the images that the prompt is about.
    images: tuple[dict[str, Any], ...] = ()
    #: The form that the answer must have.
    form: OutputForm | None = None


def load_keys(app: App) -> None:
    """Put the user's keys into the environment, where they are not set already."""
    from amplifier_foundation.settings.keys import KeyStore

    keys = KeyStore(app.home, os.environ)
    keys.apply(os.environ)
    for warning in keys.warnings:
        app.inform(f"warning: {warning}")


async def make_parts(app: App, request: RunRequest) -> Parts:
    """Prepare the session that the request asks for, a new one or one that goes on. Raises FoundationError."""
    from amplifier_foundation.plan.prepare import prepare, prepare_saved

    load_keys(app)
    options = request.options(app)
    if request.resume is None:
        prepared = await prepare(options)
        from amplifier_foundation.settings import Settings

        prepared, line = _with_provider(request, prepared, Settings() if app.is_safe else app.settings)
        notes = (_SAFE, *prepared.warnings) if app.is_safe else prepared.warnings
        return Parts(prepared, None, line, notes)
    from amplifier_foundation.sessions import load_session
    from amplifier_foundation.sessions.store import SessionStore
    from amplifier_foundation.settings import Settings

    saved = load_session(SessionStore(app.home).find(request.resume, app.project).folder)
    settings = Settings.load(app.home, saved.project or app.project, saved.folder)
    prepared = await prepare_saved(saved, options, adjust=lambda plan, layers: _as_run_now(plan, layers, settings))
    prepared, line = _with_provider(request, prepared, settings)
    return Parts(prepared, saved, line, (*saved.notes, *prepared.warnings))


def _plainest() -> str:
    """Return the shipped bundle that has least in it: no tools, so no rule of the user's is missed."""
    from amplifier_foundation.bundles.shipped import shipped_bundles

    return str(shipped_bundles()["minimal"])


def with_files(parts: Parts, request: RunRequest, access: PromptAccess) -> Parts:
    """Return the parts with what the files hold that the user named for the prompt: images, a schema.

    They are read by the rules of the session. Raises ImageError, OutputSchemaError and ReadDeniedError.
    """
    images: tuple[dict[str, Any], ...] = ()
    form = None
    if request.images:
        from amplifier_app_cli.run.images import read_image

        images = tuple(read_image(path, access) for path in request.images)
    if request.output_schema is not None:
        from amplifier_app_cli.run.output_form import OutputForm

        form = OutputForm.from_file(Path(request.output_schema), access)
    return parts._replace(images=images, form=form)


def _with_provider(request: RunRequest, prepared: Prepared, settings: Settings) -> tuple[Prepared, str]:
    """Return the session with the provider that answers first in line, and the line that says why."""
    plan = prepared.composed.plan
    if request.provider is not None:
        from amplifier_app_cli.providers.choice import apply, choose

        choice = choose(plan, settings, os.environ, explicit=request.provider, model=request.model)
        plan = apply(choice, plan)
    elif prepared.is_recorded and plan.get("providers"):
        choice = _recorded(plan)
    else:
        plan, choice = _chosen(plan, prepared.layers, settings)
    _check_key(prepared, choice)
    if request.max_tokens is not None:
        limited = [_limited(entry, choice.provider, request.max_tokens) for entry in plan["providers"]]
        plan = {**plan, "providers": limited}
    return replace(prepared, composed=replace(prepared.composed, plan=plan)), choice.line


def _check_key(prepared: Prepared, choice: Choice) -> None:
    """Raise ProviderKeyError before a module of the program says in more words that it has no key."""
    if choice.unset and choice.module not in prepared.modules:
        from amplifier_app_cli.providers.choice import ProviderKeyError

        raise ProviderKeyError(choice)


def _chosen(plan: dict[str, Any], layers: Sequence[Layer], settings: Settings) -> tuple[dict[str, Any], Choice]:
    """Return the plan with the provider that is chosen when nobody asks for one, and the choice."""
    from amplifier_app_cli.providers.choice import apply, choose, stands_in

    choice = choose(plan, settings, os.environ, stand_in=stands_in(layers))
    return (plan if _answers_already(choice.provider, plan) else apply(choice, plan)), choice


def _as_run_now(plan: dict[str, Any], layers: Sequence[Layer], settings: Settings) -> dict[str, Any]:
    """Return the plan as a new session would run it, to be compared with what was recorded."""
    from amplifier_app_cli.providers.choice import ProviderChoiceError

    try:
        return _chosen(plan, layers, settings)[0]
    except ProviderChoiceError:
        return plan  # a new session would be refused; this one has its provider


def _recorded(plan: dict[str, Any]) -> Choice:
    """Return the provider that answers in a recorded plan: what would be chosen now does not matter."""
    from amplifier_app_cli.providers.choice import choose

    choice = choose(plan, {}, os.environ, stand_in=False)
    return choice._replace(why="as recorded with the session", how_to_change="change it with --provider NAME")


def _answers_already(provider: str, plan: Mapping[str, Any]) -> bool:
    """Tell whether a provider is the only one of a plan, so that nothing needs to be said in the plan."""
    entries = plan.get("providers") or []
    return len(entries) == 1 and provider in (entries[0].get("id"), entries[0].get("module"))


def _limited(entry: dict[str, Any], provider: str, max_tokens: int) -> dict[str, Any]:
    if provider != (entry.get("id") or entry.get("module")):
        return entry
    return {**entry, "config": {**(entry.get("config") or {}), "max_tokens": max_tokens}}
