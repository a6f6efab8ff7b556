"""`amplifier update --module`: fetch newer versions of single modules, after saying which."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.compose import compose_bundle, finished, options_for
from amplifier_app_cli.commands.bundle.sources import fetched_sources, look_for_newer, read_pinned
from amplifier_app_cli.commands.bundle.update import newer_text, short
from amplifier_app_cli.commands.module.list import ModuleUnknownError
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import check_option, yes_option
from amplifier_app_cli.ui.records import json_option, print_json, print_table
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.plan.composed import PinRecord
from amplifier_foundation.plan.lock_file import LockError, differences
from amplifier_foundation.plan.prepare import Composition, activate
from amplifier_foundation.sources.fetcher import Fetcher
from amplifier_foundation.sources.uri import parse_source
from amplifier_foundation.trust.check import UntrustedError


@click.command()
@click.argument("module_id", metavar="[ID]", required=False)
@click.option("--mutable-only", is_flag=True, help="Leave out what names a commit or a version, such as v1.2.")
@check_option
@yes_option()
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@json_option
@report_errors
def update(
    module_id: str | None, mutable_only: bool, is_check: bool, is_sure: bool, trust: bool, as_json: bool
) -> None:
    """Fetch newer versions of modules: of one, the same as `amplifier update --module ID`.

    The bundles they are named in stay as they are; `amplifier update` fetches those too.

    \b
    Examples:
      amplifier update --module tool-web --yes
    """
    code = update_modules(
        module_id, mutable_only=mutable_only, is_check=is_check, is_sure=is_sure, trust=trust, as_json=as_json
    )
    sys.exit(code)


def update_modules(
    module_id: str | None, *, mutable_only: bool = False, is_check: bool, is_sure: bool, trust: bool, as_json: bool
) -> int:
    """Fetch newer versions of the modules (or of one alone) of the bundle that runs here; return the exit code.

    With `mutable_only` what names a commit or a version stays, even if its tag was moved.
    """
    app = current_app()
    composition = compose_bundle()
    if composition.refusals and not (trust or is_check):
        raise UntrustedError(composition.refusals, app.project)
    sources = fetched_sources(composition, _wanted(composition, module_id))
    if mutable_only:
        sources = {shown: uri for shown, uri in sources.items() if not _is_version(uri)}
    states = finished(look_for_newer(composition, sources, app.project, app.environ))
    changing = [state for state in states if state.may_change]
    is_text = not as_json
    if is_text:
        rows = [(one.uri, short(one.before), newer_text(one)) for one in states if one.may_change or one.problem]
        if rows:
            print_table(("SOURCE", "NOW", "NEWER"), rows)
        if not changing:
            app.inform(f"nothing newer ({len(states)} fetched sources)")
    changes: list[str] = []
    if changing and not is_check:
        app.confirm("Fetch these?", is_sure, "give --yes to fetch these")
        changes = finished(_fetched(composition, {one.uri: sources[one.uri] for one in changing}))
    if not is_text:
        print_json({"sources": [asdict(state) for state in states], "changes": changes})
    for line in changes if is_text else ():
        click.echo(line)
    return exits.FAILURE if any(state.status == "failed" for state in states) else exits.OK


def _wanted(composition: Composition, module_id: str | None) -> list[str]:
    """Return the ids of the modules meant; raises ModuleUnknownError for one that the plan fetches nothing for."""
    known = list(dict.fromkeys(use.module for use in composition.composed.modules))
    if module_id is None:
        return known
    if module_id not in known:
        hint = did_you_mean(module_id, known) if known else "none of its modules has a source"
        raise ModuleUnknownError(f"the bundle that runs here has no module {module_id!r} with a source: {hint}")
    return [module_id]


def _is_version(uri: str) -> bool:
    """Return whether a source names a commit, or a tag such as v1.2."""
    source = parse_source(uri)
    return source.kind == "git" and (source.is_commit or re.fullmatch(r"v.*[0-9].*", source.ref) is not None)


async def _fetched(composition: Composition, sources: Mapping[str, str]) -> list[str]:
    """Fetch these sources again, prepare the modules with them, and write the lock; return how that changed.

    The lock is written last: when anything fails, the pins stay as they were.
    """
    app = current_app()
    fetcher = Fetcher(app.home, refresh=True, environ=app.environ, on_progress=app.inform)
    fetched = await asyncio.gather(*(fetcher.fetch(uri, base=app.project) for uri in sources.values()))
    new = {
        uri: PinRecord(commit=one.commit, sha256=one.sha256) for uri, one in zip(sources.values(), fetched, strict=True)
    }
    composed = replace(composition.composed, pins=composition.composed.pins | new)
    prepared = await activate(composed, options_for())
    current_app().warn([*fetcher.warnings, *prepared.warnings], "note")
    before = read_pinned(composition.locks, composed.name)
    faults = composition.locks.write(composed.name, prepared.composed.pins, composition.added, keep=False)
    if faults:
        raise LockError("; ".join(faults))
    return differences(before, read_pinned(composition.locks, composed.name))
