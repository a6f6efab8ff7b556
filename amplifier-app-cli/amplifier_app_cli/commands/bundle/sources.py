"""`amplifier update --lock`, and the sources of a bundle: what its lock pins, and whether there is something newer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.compose import compose_bundle, finished, options_for
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_foundation.plan.lock_file import BundleLock, LockError, differences
from amplifier_foundation.plan.locks import LockPaths
from amplifier_foundation.plan.prepare import Composition, Options, prepare
from amplifier_foundation.sources.git import newest_commit
from amplifier_foundation.sources.uri import SourceUri, parse_source, without_secrets


@dataclass(frozen=True)
class SourceState:
    """What one source is now, and what it would become."""

    #: The address as it may be shown, which is how a lock names it.
    uri: str
    #: `fixed` names a commit and never changes; of `unknown` only fetching can show it.
    status: Literal["current", "newer", "new", "fixed", "unknown", "failed"]
    before: str | None = None
    after: str | None = None
    problem: str | None = None

    @property
    def may_change(self) -> bool:
        """Return whether fetching it again may give another result."""
        return self.status in ("newer", "new", "unknown")


def read_pinned(locks: LockPaths, name: str) -> BundleLock:
    """Return all pins of a bundle, none when it has no lock; addresses are without passwords. Raises LockError."""
    pins = {}
    for path in (locks.own, locks.added):
        lock = BundleLock.read(path)
        pins.update({} if lock is None else {without_secrets(uri): pin for uri, pin in lock.sources.items()})
    return BundleLock(locks.own, name, pins)


def fetched_sources(composition: Composition, modules: Iterable[str] | None = None) -> dict[str, str]:
    """Return the addresses of everything a bundle fetches, by how they are shown; of these `modules` only if given."""
    uses = composition.composed.modules
    if modules is not None:
        wanted = set(modules)
        uris = [use.source for use in uses if use.module in wanted]
    else:
        # What was fetched to compose the bundle is pinned. Later addresses replace earlier ones that are the
        # same but for a password.
        uris = [*sorted(composition.composed.pins), *composition.bundle.sources, *(use.source for use in uses)]
    return {without_secrets(uri): uri for uri in uris if parse_source(uri).kind in ("git", "zip", "http")}


async def look_for_newer(
    composition: Composition, sources: Mapping[str, str], project: Path, environ: Mapping[str, str]
) -> list[SourceState]:
    """Return the state of each of these sources, queried concurrently; nothing is fetched or changed."""
    pins = {without_secrets(uri): pin for uri, pin in composition.composed.pins.items()}
    known = {shown: pins[shown]["commit"] if shown in pins else None for shown in sources}
    parsed = {shown: parse_source(uri) for shown, uri in sources.items()}
    asked = {(one.url, one.ref): one for one in parsed.values() if one.kind == "git" and not one.is_commit}
    answers = await asyncio.gather(*(newest_commit(one, environ, [str(project)]) for one in asked.values()))
    newest = dict(zip(asked, answers, strict=True))
    return [
        _state(shown, one, known[shown], shown in pins, newest.get((one.url, one.ref))) for shown, one in parsed.items()
    ]


def _state(
    shown: str, source: SourceUri, before: str | None, is_known: bool, newest: tuple[str | None, str | None] | None
) -> SourceState:
    if source.is_commit:
        return SourceState(shown, "fixed" if is_known else "new", before, source.ref)
    if newest is None:
        return SourceState(shown, "unknown" if is_known else "new", before)
    commit, problem = newest
    if commit is None:
        return SourceState(shown, "failed", before, problem=problem)
    status: Literal["current", "newer", "new"] = "current" if commit == before else "newer" if is_known else "new"
    return SourceState(shown, status, before, commit)


@click.command()
@click.argument("name", required=False)
@click.option("--check", "is_check", is_flag=True, help="Change nothing; exit with 1 when the lock would change.")
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@json_option
@report_errors
def lock(name: str | None, is_check: bool, trust: bool, as_json: bool) -> None:
    """Write the lock of a bundle: the same as `amplifier update --lock`.

    \b
    Examples:
      amplifier update --lock
      amplifier update --lock --check
    """
    sys.exit(lock_bundle(name, is_check=is_check, trust=trust, as_json=as_json))


def lock_bundle(name: str | None, *, is_check: bool, trust: bool, as_json: bool) -> int:
    """Write the lock of a bundle, or check it, and return the exit code: what is pinned stays, what is new is pinned.

    With `is_check` nothing is changed; the exit code is 1 when the lock would change.
    """
    composition = compose_bundle(name)
    bundle, locks = composition.bundle.name, composition.locks
    before = after = read_pinned(locks, bundle)
    if is_check:
        changes = _missing(composition, before)
    else:
        finished(_lock(options_for(name, trust=trust), locks))
        after = read_pinned(locks, bundle)
        changes = differences(before, after)
    record = {
        "bundle": bundle,
        "lock": str(locks.own),
        "lock_of_settings": str(locks.added),
        "sources": {uri: pin._asdict() for uri, pin in after.sources.items()},
        "changes": changes,
    }
    if as_json:
        print_json(record)
    else:
        _print_lock(record, is_check)
    return exits.FAILURE if is_check and changes else exits.OK


def _missing(composition: Composition, before: BundleLock) -> list[str]:
    """Return what writing the lock now would change, without fetching anything."""
    wanted = fetched_sources(composition)
    known = before.sources
    lines = [f"{uri}: not in the lock" for uri in sorted(wanted.keys() - known.keys())]
    return lines + [f"{uri}: in the lock, but not used any more" for uri in sorted(known.keys() - wanted.keys())]


async def _lock(options: Options, locks: LockPaths) -> None:
    """Fetch what is not fetched yet and write the locks; raise LockError when they are not written."""
    prepared = await prepare(options)
    current_app().warn(prepared.warnings, "note")
    written = {uri: pin.sha256 for uri, pin in read_pinned(locks, prepared.composed.name).sources.items()}
    if written != {without_secrets(uri): pin["sha256"] for uri, pin in prepared.composed.pins.items()}:
        raise LockError(f"{locks.own}: the lock was not written: see the notes above")


def _print_lock(record: dict[str, Any], is_check: bool) -> None:
    for line in record["changes"]:
        click.echo(plain(line))
    if not record["sources"] and not record["changes"]:
        current_app().inform(f"{record['bundle']} fetches nothing: there is nothing to lock")
    elif not record["changes"]:
        current_app().inform(f"{record['lock']}: is up to date, {len(record['sources'])} sources")
    elif is_check:
        current_app().inform(f"{record['lock']}: would change: run `amplifier update --lock`")
    else:
        current_app().inform(f"{record['lock']}: written, {len(record['sources'])} sources")
