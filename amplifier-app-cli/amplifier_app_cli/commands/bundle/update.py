"""`amplifier update` of bundles: fetch newer versions of what bundles use, after saying which."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.bundle.compose import finished, known_bundles, options_for
from amplifier_app_cli.commands.bundle.sources import SourceState, fetched_sources, look_for_newer, read_pinned
from amplifier_app_cli.failures import exit_code_of, report_errors
from amplifier_app_cli.options import check_option, source_option, yes_option
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_table
from amplifier_app_cli.ui.say import complain
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.plan.lock_file import differences
from amplifier_foundation.plan.locks import LockPaths
from amplifier_foundation.plan.prepare import compose, prepare
from amplifier_foundation.sources.fetched import SourceNotFoundError
from amplifier_foundation.sources.uri import without_secrets


@dataclass
class BundleUpdate:
    """The update of one bundle: what is newer, and the result."""

    #: The given name; None for the bundle that runs here.
    name: str | None
    bundle: str = ""
    lock: str = ""
    locks: LockPaths | None = None
    sources: list[SourceState] = field(default_factory=list)
    updated: bool = False
    #: How its lock changed.
    changes: list[str] = field(default_factory=list)
    error: str | None = None
    exit_code: int = exits.OK

    @property
    def has_work(self) -> bool:
        """Return whether fetching again may give another result."""
        return self.error is None and any(source.may_change for source in self.sources)

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {key: value for key, value in asdict(self).items() if key not in ("name", "locks", "exit_code")}


@click.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="All bundles that have a name here.")
@source_option
@check_option
@yes_option()
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@json_option
@report_errors
def update(
    name: str | None, everything: bool, source: str | None, is_check: bool, is_sure: bool, trust: bool, as_json: bool
) -> None:
    """Fetch newer versions of what a bundle uses: the same as `amplifier update`.

    \b
    Examples:
      amplifier update --check
      amplifier update team --yes
      amplifier update team --source git+https://example.com/team/tool-tides@main
      amplifier update --all --yes
    """
    if everything and name is not None:
        raise click.UsageError("give a NAME or --all, not both")
    if everything and source is not None:
        raise click.UsageError("--source is for one bundle: leave out --all")
    names: list[str | None] = [*all_names(current_app())] if everything else [name]
    sys.exit(update_bundles(names, source, is_check=is_check, is_sure=is_sure, trust=trust, as_json=as_json))


def update_bundles(
    names: Sequence[str | None],
    source: str | None = None,
    *,
    is_check: bool,
    is_sure: bool,
    trust: bool,
    as_json: bool,
) -> int:
    """Show what is newer, ask, update; return the exit code. A bundle that fails does not stop the others.

    With `source`, that address alone is looked at and fetched.
    """
    app = current_app()
    updates = [BundleUpdate(name) for name in names]
    shown = None if source is None else without_secrets(source)
    finished(_look(updates, app, shown))
    is_text = not as_json
    if is_text:
        _print_newer(updates, app)
    if any(one.has_work for one in updates) and not is_check:
        app.confirm("Fetch these?", is_sure, "give --yes to fetch these")
        finished(_fetch([one for one in updates if one.has_work], trust, shown))
        if is_text:
            _print_changes(updates)
    if not is_text:
        print_json([one.record() for one in updates])
    for one in updates:
        if one.error is not None:
            complain(exits.FAILURE, one.error)
    failed = [one.exit_code for one in updates if one.error is not None]
    if failed:
        return failed[0]
    return exits.FAILURE if any(source.status == "failed" for one in updates for source in one.sources) else exits.OK


async def _look(updates: Sequence[BundleUpdate], app: App, source: str | None) -> None:
    """Compose every bundle as it is now, and check its sources, or `source` alone."""
    for one in updates:
        try:
            composition = await compose(options_for(one.name))
        except FoundationError as error:
            _fail(one, error)
            continue
        current_app().warn(composition.warnings, "note")
        one.bundle, one.lock, one.locks = composition.bundle.name, composition.composed.lock, composition.locks
        sources = fetched_sources(composition)
        if source is not None:
            if source not in sources:
                where = f" from {source!r}: {did_you_mean(source, sorted(sources))}" if sources else ""
                _fail(one, SourceNotFoundError(f"the bundle fetches nothing{where}"))
                continue
            sources = {source: sources[source]}
        one.sources = await look_for_newer(composition, sources, app.project, app.environ)


async def _fetch(updates: Sequence[BundleUpdate], trust: bool, source: str | None) -> None:
    for one in updates:
        assert one.locks is not None
        try:
            before = read_pinned(one.locks, one.bundle)
            prepared = await prepare(options_for(one.name, update=True, update_source=source, trust=trust))
            current_app().warn(prepared.warnings, "note")
            after = read_pinned(one.locks, one.bundle)
        except FoundationError as error:
            _fail(one, error)
            continue
        one.updated = True
        one.changes = differences(before, after)


def _fail(update: BundleUpdate, error: Exception) -> None:
    name = update.name or update.bundle
    update.error = f"{name}: {error}" if name else str(error)
    update.exit_code = exit_code_of(error)


def all_names(app: App) -> list[str]:
    """Return the names of all bundles but those that come with the program."""
    return [known.name for known in known_bundles(app).list() if known.origin != "product"]


def _print_newer(updates: Sequence[BundleUpdate], app: App) -> None:
    """Print every source that may change, and say which bundles have none."""
    rows = [
        (one.bundle, source.uri, short(source.before), newer_text(source))
        for one in updates
        for source in one.sources
        if source.may_change or source.status == "failed"
    ]
    if rows:
        print_table(("BUNDLE", "SOURCE", "NOW", "NEWER"), rows)
    for one in updates:
        if one.error is None and not one.has_work:
            count = len(one.sources)
            app.inform(f"{one.bundle}: nothing newer ({count} sources)" if count else f"{one.bundle}: fetches nothing")
    if not updates:
        app.inform("no bundle was added: see `amplifier bundle add`")


def _print_changes(updates: Sequence[BundleUpdate]) -> None:
    for one in updates:
        for line in one.changes:
            click.echo(plain(f"{one.bundle}: {line}"))


def short(commit: str | None) -> str:
    """Return an abbreviated commit."""
    return commit[:12] if commit else "-"


def newer_text(source: SourceState) -> str:
    """Return, for people, what a source would become."""
    if source.status == "failed":
        return source.problem or "unknown"
    return short(source.after) if source.after else "unknown until it is fetched"
