"""What the user asks of a session, and the session prepared from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.app import App
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_app_cli.providers.choice import Choice
    from amplifier_foundation.bundles.bundle import Layer
    from amplifier_foundation.plan.composed import Composed
    from amplifier_foundation.plan.prepare import Options
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.policy.modes import RunPermissions
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.settings.settings import Settings
    from amplifier_kit.guard.policy.rules import Rule

_SAFE_MODE: Final = "safe mode: the minimal bundle, without your settings, modules, hooks, agents and tools"


class SessionRequest(NamedTuple):
    """The options of one command that runs a session."""

    bundle: str | None = None
    provider: str | None = None
    model: str | None = None
    #: The longest answer, in tokens.
    max_tokens: int | None = None
    #: The session to resume: its id, a prefix of it, its name or its folder.
    resume: str | None = None
    locked: bool = False
    offline: bool = False
    trust: bool = False
    allow_missing_modules: bool = False
    budget: Mapping[str, Any] = MappingProxyType({})
    images: tuple[Path, ...] = ()
    #: A file with the JSON schema that the answer must match.
    output_schema: str | None = None
    permission_mode: str | None = None
    #: Rules for this run, as text without their verdict.
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    #: Folders that count as part of the project.
    add_dirs: tuple[Path, ...] = ()
    #: Bundles of the product that the view adds to the one of the session.
    behaviors: tuple[str, ...] = ()
    system_prompt: str | None = None
    append_system_prompt: str | None = None

    def options(self, app: App, settings: Settings) -> Options:
        """Return what the library needs to prepare the session."""
        from amplifier_foundation.plan.prepare import Options

        return Options(
            app.home,
            app.project,
            bundle=_minimal_bundle() if app.is_safe else self.bundle,
            bare=app.is_safe,
            locked=self.locked,
            offline=self.offline,
            trust=self.trust,
            allow_missing=self.allow_missing_modules,
            behaviors=self.behaviors,
            settings=settings,
            on_progress=app.inform,
        )


class PreparedSession(FrozenStruct):
    """A session that is ready to be opened."""

    prepared: Prepared
    #: The session that is resumed, None for a new one.
    saved: SavedSession | None
    settings: Settings
    #: Which provider answers, why, and how to change that.
    choice: Choice
    #: What the user should know.
    notes: tuple[str, ...]
    #: The permission mode and the rules for this run.
    run: RunPermissions

    @property
    def provider_line(self) -> str:
        """Which provider answers, and why, on one short line."""
        return self.choice.summary


async def prepare_session(app: App, request: SessionRequest) -> PreparedSession:
    """Prepare a new session, or the one to resume. Raises FoundationError."""
    from amplifier_foundation.plan.prepare import prepare
    from amplifier_foundation.settings.settings import Settings

    _load_keys(app)
    if request.resume is None:
        settings = Settings() if app.is_safe else app.settings
        prepared = await prepare(request.options(app, settings))
        prepared, choice = await _with_provider(request, prepared, settings)
        notes = (_SAFE_MODE, *prepared.warnings) if app.is_safe else prepared.warnings
        return PreparedSession(prepared, None, settings, choice, notes, _run_permissions(request, None, settings))
    from amplifier_foundation.sessions.resume import load_session, prepare_saved
    from amplifier_foundation.sessions.store import SessionStore

    saved = load_session(SessionStore(app.home).find(request.resume, app.project).folder)
    settings = Settings.load(app.home, saved.project or app.project, saved.folder)
    options = request.options(app, settings)
    prepared = await prepare_saved(saved, options, adjust=lambda plan, layers: _as_run_now(plan, layers, settings))
    prepared, choice = await _with_provider(request, prepared, settings)
    run = _run_permissions(request, saved, settings)
    return PreparedSession(prepared, saved, settings, choice, (*saved.notes, *prepared.warnings), run)


def _run_permissions(request: SessionRequest, saved: SavedSession | None, settings: Settings) -> RunPermissions:
    """Return the permission mode and the rules for a run; raises PermissionModeError."""
    from amplifier_foundation.policy.modes import RunPermissions, parse_mode

    chosen, by = None, dict[str, Any]()
    if request.permission_mode is not None:
        from amplifier_foundation.approvals.answered_by import person_at

        chosen, by = parse_mode(request.permission_mode), dict(person_at("--permission-mode"))
    known = saved.metadata if saved is not None else None
    return RunPermissions.starting(chosen, by, known, settings, _rules(request), request.add_dirs)


def _rules(request: SessionRequest) -> list[Rule]:
    """Return the rules of --allow and --deny."""
    if not (request.allow or request.deny):
        return []
    from amplifier_foundation.policy.rule_text import parse_rule

    given = [("--allow", parse_rule(text, "allow")) for text in request.allow]
    given += [("--deny", parse_rule(text, "deny")) for text in request.deny]
    return [replace(rule, where=option) for option, rule in given]


def _load_keys(app: App) -> None:
    """Put the user's keys into the environment, unless they are set already."""
    from amplifier_foundation.settings.keys import KeyStore

    keys = KeyStore(app.home, os.environ)
    keys.apply(os.environ)
    app.warn(keys.warnings)


def _minimal_bundle() -> str:
    """Return the smallest shipped bundle: it has no tools, so none of the user's rules is missed."""
    from amplifier_foundation.bundles.shipped import shipped_bundles

    return str(shipped_bundles()["minimal"])


# -- the provider --


async def _with_provider(request: SessionRequest, prepared: Prepared, settings: Settings) -> tuple[Prepared, Choice]:
    """Return the session with the answering provider first, and the choice that says why it answers."""
    plan = prepared.composed.plan
    if request.provider is not None:
        from amplifier_app_cli.providers.choice import apply, choose

        choice = choose(plan, settings, os.environ, explicit=request.provider, model=request.model)
        plan = apply(choice, plan)
    elif prepared.is_recorded and plan.get("providers"):
        choice = _recorded(plan)
    else:
        plan, choice = _chosen(plan, prepared.layers, settings)
    if request.model is not None and request.provider is None:
        from amplifier_app_cli.providers.by_model import provider_of_model
        from amplifier_app_cli.providers.choice import apply

        choice = await provider_of_model(
            request.model, prepared, settings, os.environ, choice, is_offline=request.offline
        )
        plan = apply(choice, plan)
    _check_key(prepared, choice)
    composed = _with_prompt(request, prepared.composed)
    if request.max_tokens is not None:
        limited = [_limited(entry, choice.provider, request.max_tokens) for entry in plan["providers"]]
        plan = {**plan, "providers": limited}
    return replace(prepared, composed=replace(composed, plan=plan)), choice


def _with_prompt(request: SessionRequest, composed: Composed) -> Composed:
    """Return what the session is made of with the system prompt that the user gives, or with more text behind it."""
    if request.system_prompt is not None:
        composed = replace(composed, instruction=request.system_prompt)
    if request.append_system_prompt is None:
        return composed
    from amplifier_foundation.prompt.access import text_hash

    text = "\n\n".join(filter(None, (composed.instruction, request.append_system_prompt)))
    # Its mentions are followed as those of the file that the instruction comes from.
    file = composed.texts.get(text_hash(composed.instruction))
    texts = {**composed.texts, text_hash(text): file} if file is not None else composed.texts
    return replace(composed, instruction=text, texts=texts)


def _check_key(prepared: Prepared, choice: Choice) -> None:
    """Raise ProviderKeyError early; a provider module of the program would report it less clearly."""
    if choice.unset and choice.module not in prepared.modules:
        from amplifier_app_cli.providers.choice import ProviderKeyError

        raise ProviderKeyError(choice)


def _chosen(plan: dict[str, Any], layers: Sequence[Layer], settings: Settings) -> tuple[dict[str, Any], Choice]:
    """Return the plan with the provider that is chosen by default, and the choice."""
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
    """Return the provider that answers in a recorded plan, whatever would be chosen now."""
    from amplifier_app_cli.providers.choice import choose

    choice = choose(plan, {}, os.environ, stand_in=False)
    return choice._replace(why="as recorded with the session", how_to_change="change it with --provider NAME")


def _answers_already(provider: str, plan: Mapping[str, Any]) -> bool:
    """Return whether a provider is the only one of a plan, so that the plan can stay as it is."""
    entries = plan.get("providers") or []
    return len(entries) == 1 and provider in (entries[0].get("id"), entries[0].get("module"))


def _limited(entry: dict[str, Any], provider: str, max_tokens: int) -> dict[str, Any]:
    if provider != (entry.get("id") or entry.get("module")):
        return entry
    return {**entry, "config": {**(entry.get("config") or {}), "max_tokens": max_tokens}}
