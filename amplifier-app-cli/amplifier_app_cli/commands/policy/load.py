"""Load the rules that hold in a project, with those of the bundle that runs there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from amplifier_app_cli.app import App
from amplifier_app_cli.options import Number
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.plan.prepare import Options, compose
from amplifier_foundation.plan.project_files import code_in_project
from amplifier_foundation.policy.history import Past, read_past
from amplifier_foundation.policy.permissions import Judgement, Permissions
from amplifier_foundation.policy.policy_file import may_bundle_allow, rule_entry
from amplifier_foundation.sessions.store import SessionStore
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.guard.policy.rules import Rule

Function = Callable[..., Any]


def days_option(command: Function) -> Function:
    """Add `--days` to a command: how far it looks back."""
    return click.option(
        "--days",
        type=Number(min=0, min_open=True, max=36500),
        default=30,
        show_default=True,
        help="Look at the sessions of this many days.",
    )(command)


def permissions_in(app: App, project: Path, *, user_file: Path | None = None) -> Permissions:
    """Return the rules that apply in a project; a bundle that cannot be composed is reported, and has none.

    Nothing is fetched. Raises SettingsError.
    """
    is_trusted = TrustStore(app.home).state(project).trusted
    composition = _composition(app, project)
    plan: dict[str, Any] = composition.composed.plan if composition is not None else {}
    layers = composition.layers if composition is not None else ()
    return Permissions.load(
        app.home,
        project,
        is_trusted=is_trusted,
        plan=plan,
        bundle=f"bundle {composition.composed.name}" if composition is not None else "bundle",
        is_bundle_trusted=may_bundle_allow(layers, is_trusted=is_trusted),
        user_file=user_file,
        control_files=code_in_project(composition.composed, layers, project, app.home.path) if composition else (),
    )


def _composition(app: App, project: Path) -> Any:
    options = Options(app.home, project, environ=app.environ, allow_missing=True, offline=True)
    try:
        return asyncio.run(compose(options))
    except FoundationError as error:
        app.inform(f"note: rules of the bundle are left out, because it cannot be composed: {error}")
        return None


def past_of(app: App, days: float, *, all_projects: bool = False) -> Past:
    """Return what the sessions of the last days did; print what could not be read."""
    since = datetime.now(UTC) - timedelta(days=days)
    store = SessionStore(app.home)
    sessions = store.list(app.project, all_projects=all_projects, include_children=True, since=since)
    past = read_past((one.folder, Path(one.project or app.project)) for one in sessions)
    for problem in (*past.problems, *store.warnings):
        app.inform(f"note: {problem}")
    return past


def rule_record(rule: Rule, **more: Any) -> dict[str, Any]:
    """Return a rule for programs."""
    return {"rule": str(rule), **rule_entry(rule), "where": rule.where or None, **more}


def judgement_record(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement for programs."""
    rule = judgement.rule
    return {
        "verdict": judgement.verdict,
        "what": judgement.what,
        "reason": judgement.reason,
        "rule": str(rule) if rule is not None else None,
        "scope": judgement.scope or None,
        "where": (rule.where or None) if rule is not None else None,
    }
