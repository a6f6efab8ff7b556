"""Prepare a session to be resumed with the plan that was recorded for it, and report what has changed since."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.bundles.bundle import BundleNotFoundError
from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import Composed, differences, masked_keys, with_secrets_of
from amplifier_foundation.plan.prepare import (
    Adjust,
    Options,
    activate,
    compose,
    make_fetcher,
    prepare,
    recorded_pins,
    refused,
)
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.resume import SavedSession
from amplifier_foundation.trust.check import ModuleUse, UntrustedError

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer


async def prepare_saved(saved: SavedSession, options: Options, *, adjust: Adjust | None = None) -> Prepared:
    """Return what a session was composed of, as recorded, ready to run.

    It is compared with what bundle, settings and lock give now; every difference is one of the `warnings`. A session
    without a record, as other programs write it, gets the bundle that its metadata name, as it is now. A bundle in the
    options is used instead of the recorded one. An app that changes plans before it runs them passes `adjust`, so that
    its changes do not count as differences. Raises what `prepare` raises.
    """
    warnings = _missing_folder(saved, options.project)
    options = replace(options, project=saved.project or options.project, session_folder=saved.folder)
    if options.bundle is not None or saved.recorded is None:
        is_given = options.bundle is not None
        try:
            prepared = await prepare(replace(options, bundle=options.bundle or saved.bundle), given_by_user=is_given)
        except BundleNotFoundError as error:
            raise (error if is_given else _bundle_unknown(saved, error)) from error
        warnings += _replacement(saved, _adjusted(prepared.composed, prepared.layers, adjust))
        return replace(prepared, warnings=tuple(dict.fromkeys((*warnings, *prepared.warnings))))
    recorded = _with_session_settings(_with_shipped_files(saved.recorded), saved.folder)
    layers: tuple[Layer, ...] = ()
    try:
        composition = await compose(replace(options, bundle=recorded.reference), given_by_user=False)
        current = _adjusted(composition.composed, composition.layers, adjust)
        recorded = with_secrets_of(recorded, current)
        if _rules(recorded) == _rules(current):  # otherwise it is unknown who wrote the recorded ones
            layers = composition.layers
        warnings += [f"{line}: the recorded one is used" for line in differences(recorded, current)]
    except FoundationError as error:
        warnings.append(f"the bundle can no longer be composed, so the recorded plan is used: {error}")
    warnings += [
        f"{key}: the record of the session holds no secrets, and the source of this one is no longer known"
        for key in masked_keys(recorded)
    ]
    refusals = refused(recorded, options)
    if refusals:
        raise UntrustedError(refusals, options.project)
    recorded = await _in_recorded_state(recorded, options)
    warnings += _lost_context(recorded)
    prepared = await activate(recorded, options)
    all_warnings = tuple(dict.fromkeys((*warnings, *prepared.warnings)))
    return replace(prepared, warnings=all_warnings, is_recorded=True, layers=layers)


def _rules(composed: Composed) -> list[Any]:
    """Return everything in a plan that affects what its session may do."""
    from amplifier_foundation.policy.policy_file import mentions_approval

    hooks, agents = composed.plan.get("hooks"), composed.plan.get("agents")
    listed = [*(hooks if isinstance(hooks, list) else []), *(agents.items() if isinstance(agents, Mapping) else [])]
    from amplifier_foundation.bundles.plan_modules import said_of

    # The current files decide who wrote these, so they must have the same content as the recorded ones, in the same
    # place. The parts of an agent are in the plan of its own session, which may be resumed by itself.
    own = {key: value for key, value in composed.plan.items() if key != "agents"}
    parts = [said_of(part, name) for part in (own, agents) for name in ("hook-shell", "tool-mcp", "sandbox")]
    return [*parts, *(entry for entry in listed if mentions_approval(entry))]


def _adjusted(composed: Composed, layers: tuple[Layer, ...], adjust: Adjust | None) -> Composed:
    """Return the current composition with the changes of the app."""
    return composed if adjust is None else replace(composed, plan=adjust(composed.plan, layers))


async def _in_recorded_state(recorded: Composed, options: Options) -> Composed:
    """Return the recorded plan with fetched bundles in their recorded versions, wherever those are now.

    An update may have put another version in the recorded place. Raises SourceError if a recorded version cannot be
    fetched.
    """
    if not recorded.roots:
        return recorded
    import asyncio

    fetcher = make_fetcher(options, recorded_pins(recorded))
    roots = list(recorded.roots.items())
    fetched = await asyncio.gather(*(fetcher.fetch(uri) for uri, _ in roots))
    for (_, before), now in zip(roots, fetched, strict=True):
        if before != str(now.root):
            recorded = recorded.moved(before, str(now.root))
    return recorded


def _with_shipped_files(recorded: Composed) -> Composed:
    """Return the recorded plan with the current paths of the product's files: an update may have moved them."""
    from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE

    name, root = SHIPPED_NAMESPACE
    before = recorded.namespaces.get(name)
    return recorded if before is None or before == str(root) else recorded.moved(before, str(root))


def _with_session_settings(recorded: Composed, folder: Path) -> Composed:
    """Return the recorded plan with the session's own settings applied, which may have been written since.

    Raises SettingsError, with file and line, for invalid settings.
    """
    from amplifier_foundation.settings.checks import check_settings
    from amplifier_foundation.settings.plan import apply_settings
    from amplifier_foundation.settings.scopes import anchored, scope_file
    from amplifier_foundation.settings.settings import read_settings_file

    path = scope_file("session", Home(folder), None, folder)
    document = read_settings_file(path)
    if document is None:
        return recorded
    data, _ = check_settings(document.data, document.where)
    plan = apply_settings(recorded.plan, anchored(data, path, None))
    known = {(use.module, use.source) for use in recorded.modules}
    before = {(entry.module, entry.source) for entry in all_modules(recorded.plan)}
    added = {
        entry.module: ModuleUse(entry.section, entry.module, entry.source, "user", "user", False, str(path))
        for entry in all_modules(plan)
        if entry.source is not None and not {(entry.module, entry.source)} & (known | before)
    }
    kept = [use for use in recorded.modules if use.module not in added]
    return replace(recorded, plan=plan, modules=(*kept, *added.values()))


def _missing_folder(saved: SavedSession, project: Path) -> list[str]:
    """Return a warning if the folder that a session worked in is missing."""
    named = saved.metadata.get("working_dir")
    if not isinstance(named, str) or saved.project is not None:
        return []
    return [f"the folder {named} that the session worked in no longer exists: {project} is used"]


def _lost_context(recorded: Composed) -> list[str]:
    """Return a warning for each context file that is missing."""
    lost = [path for path in recorded.context.values() if not os.path.exists(path)]
    return [f"context: the file {path} no longer exists" for path in lost]


def _bundle_unknown(saved: SavedSession, error: BundleNotFoundError) -> BundleNotFoundError:
    """Return the error for a session without a record whose bundle is unknown here."""
    why = saved.record_problem or "it has no recorded plan"
    return BundleNotFoundError(
        f"{error}\nThe session {saved.session_id} cannot be resumed with its own bundle: {why}. To use another one: "
        f"`amplifier run --resume {saved.session_id} --bundle NAME`"
    )


def _replacement(saved: SavedSession, current: Composed) -> list[str]:
    """Return the warnings for a session that is resumed with another bundle than the recorded one."""
    if saved.recorded is not None:
        return [f"{line}: the new one is used, as requested" for line in differences(saved.recorded, current)]
    warnings = [f"the session has no recorded plan: bundle {current.name!r} is used as it is now"]
    model = saved.metadata.get("model") or saved.metadata.get("provider")
    return warnings + ([f"model: the session used {model}"] if model else [])
