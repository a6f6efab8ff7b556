"""Make the parts of a session ready again that were recorded when it was made, and tell what would be different now."""

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
from amplifier_foundation.sessions.metadata import RECORD
from amplifier_foundation.sessions.resume import SavedSession
from amplifier_foundation.trust.check import ModuleUse, UntrustedError

if TYPE_CHECKING:
    from amplifier_foundation.bundles.layer import Layer


async def prepare_saved(saved: SavedSession, options: Options, *, adjust: Adjust | None = None) -> Prepared:
    """Return the parts that a session was made of, as they were recorded, ready to go on.

    What bundle, settings and lock would give now is compared, and every difference is one of the `warnings`. A session
    without a record, as other programs write it, gets the bundle that its notes name, as it is now. A bundle that the
    options name is used instead of the recorded one. An app that changes plans before it runs them says how with
    `adjust`: the plan of now is compared as the app would run it. Raises what `prepare` raises.
    """
    told = _moved_away(saved, options.project)
    options = replace(options, project=saved.project or options.project, session_folder=saved.folder)
    if options.bundle is not None or saved.recorded is None:
        is_given = options.bundle is not None
        try:
            prepared = await prepare(replace(options, bundle=options.bundle or saved.bundle), given_by_user=is_given)
        except BundleNotFoundError as error:
            raise (error if is_given else _not_here(saved, error)) from error
        told += _instead(saved, _adjusted(prepared.composed, prepared.layers, adjust))
        return replace(prepared, warnings=tuple(dict.fromkeys((*told, *prepared.warnings))))
    recorded = _with_session_settings(_with_shipped_files(saved.recorded), saved.folder)
    layers: tuple[Layer, ...] = ()
    try:
        composition = await compose(replace(options, bundle=recorded.reference), given_by_user=False)
        current = _adjusted(composition.composed, composition.layers, adjust)
        recorded = with_secrets_of(recorded, current)
        if _rules(recorded) == _rules(current):  # else nobody knows who wrote those that are used
            layers = composition.layers
        told += [f"{line}: what was recorded is used" for line in differences(recorded, current)]
    except FoundationError as error:
        told.append(f"the bundle cannot be composed any more, what was recorded is used: {error}")
    told += [
        f"{key}: the record of the session holds no secrets, and where this one comes from is not known any more"
        for key in masked_keys(recorded)
    ]
    refusals = refused(recorded, options)
    if refusals:
        raise UntrustedError(refusals, options.project)
    recorded = await _in_recorded_state(recorded, options)
    told += _lost_context(recorded)
    prepared = await activate(recorded, options)
    warnings = tuple(dict.fromkeys((*told, *prepared.warnings)))
    return replace(prepared, warnings=warnings, is_recorded=True, layers=layers)


def _rules(composed: Composed) -> list[Any]:
    """Return everything in a plan that says something of what its session may do."""
    from amplifier_foundation.policy.policy_file import mentions_approval

    hooks, agents = composed.plan.get("hooks"), composed.plan.get("agents")
    listed = [*(hooks if isinstance(hooks, list) else []), *(agents.items() if isinstance(agents, Mapping) else [])]
    from amplifier_foundation.trust.config_origin import said_of

    # Who wrote these is asked of the files as they are now: they must say the same as those that were recorded, and in
    # the same place. What an agent says is in the plan of its own session, which may be gone on with by itself.
    own = {key: value for key, value in composed.plan.items() if key != "agents"}
    asked = [said_of(part, name) for part in (own, agents) for name in ("hook-shell", "tool-mcp", "sandbox")]
    return [*asked, *(entry for entry in listed if mentions_approval(entry))]


def _adjusted(composed: Composed, layers: tuple[Layer, ...], adjust: Adjust | None) -> Composed:
    """Return what is composed now as the app would run it."""
    return composed if adjust is None else replace(composed, plan=adjust(composed.plan, layers))


async def _in_recorded_state(recorded: Composed, options: Options) -> Composed:
    """Return what was recorded with the files of fetched bundles in the state they had, wherever that lies now.

    An update may have put another state in the place that was recorded. Raises SourceError when the recorded one
    cannot be had.
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
    """Return what was recorded with the files of the product where they are now: an update may have moved them."""
    from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE

    name, root = SHIPPED_NAMESPACE
    before = recorded.namespaces.get(name)
    return recorded if before is None or before == str(root) else recorded.moved(before, str(root))


def _with_session_settings(recorded: Composed, folder: Path) -> Composed:
    """Return what was recorded with the session's own settings laid over it: they were made for what comes now.

    Raises SettingsError, with file and line, for settings that make no sense.
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


def _moved_away(saved: SavedSession, project: Path) -> list[str]:
    """Return what to tell of a session whose folder to work in is gone."""
    named = saved.metadata.get("working_dir")
    if not isinstance(named, str) or saved.project is not None:
        return []
    return [f"the folder {named} that the session worked in is not there any more: {project} is used"]


def _lost_context(recorded: Composed) -> list[str]:
    """Return what to tell of context files that the model is not told any more."""
    lost = [path for path in recorded.context.values() if not os.path.exists(path)]
    return [f"context: there is no file {path} any more" for path in lost]


def _not_here(saved: SavedSession, error: BundleNotFoundError) -> BundleNotFoundError:
    """Return the error for a session that has no record, and whose bundle is not known here."""
    why = next((note for note in saved.notes if RECORD in note), "it has no record of what it was made of")
    return BundleNotFoundError(
        f"{error}\nThe session {saved.session_id} cannot go on with its own bundle: {why}. To go on with another one: "
        f"`amplifier run --resume {saved.session_id} --bundle NAME`"
    )


def _instead(saved: SavedSession, current: Composed) -> list[str]:
    """Return what to tell of a session that goes on with another bundle than the recorded one."""
    if saved.recorded is not None:
        return [f"{line}: what is now is used, as asked" for line in differences(saved.recorded, current)]
    told = [f"the session has no record of what it was made of: bundle {current.name!r} is used as it is now"]
    model = saved.metadata.get("model") or saved.metadata.get("provider")
    return told + ([f"model: the session used {model}"] if model else [])
