"""`amplifier bundle lock`: write down which commit and which content every source of a bundle is."""

from __future__ import annotations

import sys
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.compose import compose_bundle, finished, options_for
from amplifier_app_cli.commands.bundle.sources import fetched_sources, read_pinned
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_foundation.plan.lock_file import BundleLock, LockError, differences
from amplifier_foundation.plan.locks import LockPaths
from amplifier_foundation.plan.prepare import Composition, Options, prepare
from amplifier_foundation.sources.uri import without_secrets


@click.command()
@click.argument("name", required=False)
@click.option("--check", "is_check", is_flag=True, help="Change nothing; exit with 1 when the lock would change.")
@click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")
@format_option
@report_errors
def lock(name: str | None, is_check: bool, trust: bool, output_format: str) -> None:
    """Write the lock of the bundle NAME (else of the one that runs here): what is pinned stays, what is new is pinned.

    To move pins to newer states, use `amplifier bundle update`.

    \b
    Examples:
      amplifier bundle lock
      amplifier bundle lock --check
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
    if output_format == "json":
        print_json(record)
    else:
        _print(record, is_check)
    sys.exit(exits.FAILURE if is_check and changes else exits.OK)


def _missing(composition: Composition, before: BundleLock) -> list[str]:
    """Return what a lock that is written now would change: nothing is fetched to find out."""
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
        raise LockError(f"{locks.own}: the lock was not written; see above why")


def _print(record: dict[str, Any], is_check: bool) -> None:
    for line in record["changes"]:
        click.echo(plain(line))
    if not record["sources"] and not record["changes"]:
        current_app().inform(f"{record['bundle']} fetches nothing: there is nothing to lock")
    elif not record["changes"]:
        current_app().inform(f"{record['lock']}: is up to date, {len(record['sources'])} sources")
    elif is_check:
        current_app().inform(f"{record['lock']}: would change: run `amplifier bundle lock`")
    else:
        current_app().inform(f"{record['lock']}: written, {len(record['sources'])} sources")
