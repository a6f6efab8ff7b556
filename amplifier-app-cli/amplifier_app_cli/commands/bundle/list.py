"""`amplifier bundle list`: every bundle that has a name here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.bundle.compose import finished, known_bundles, reference_to
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.records import json_option, print_list
from amplifier_foundation.bundles.file import find_bundle_file, read_bundle_file
from amplifier_foundation.bundles.loader import is_path, locate
from amplifier_foundation.bundles.registry import BundleRegistry
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import expanded
from amplifier_foundation.plan.prepare import DEFAULT
from amplifier_foundation.sources.fetched import OfflineError
from amplifier_foundation.sources.fetcher import Fetcher
from amplifier_foundation.sources.uri import without_secrets


@dataclass
class ListedBundle:
    """One row of the list."""

    #: What `amplifier bundle show` and `amplifier run --bundle` take.
    name: str
    #: Who knows it: project, user, settings, registry, product; `reference` for one that has no name.
    origin: str
    #: The reference that the name means.
    reference: str
    active: bool = False
    #: Whether it is added to every session.
    app: bool = False
    version: str | None = None
    description: str | None = None
    #: Its path on this machine.
    file: str | None = None
    #: Why it could not be read.
    problem: str | None = None


@click.command("list")
@click.option("-a", "--all", "with_included", is_flag=True, help="Also list bundles that came with others only.")
@json_option
@report_errors
def list_bundles(with_included: bool, as_json: bool) -> None:
    """List the bundles there are: of the project, yours, and those that come with the program.

    The one that runs here is marked with *, those that are added to every session with +.

    \b
    Examples:
      amplifier bundle list
      amplifier bundle list --all --json
    """
    rows, warnings = finished(_listed(current_app(), with_included))
    current_app().warn(warnings, "note")
    records = [{**asdict(row), "reference": without_secrets(row.reference)} for row in rows]
    cells = [(_mark(row), row.name, row.origin, row.version or "-", _about(row)) for row in rows]
    headings = ("", "NAME", "ORIGIN", "VERSION", "DESCRIPTION")
    print_list(as_json, records, headings, cells, empty="no bundles")


def _about(row: ListedBundle) -> str:
    return row.description or f"({row.problem or 'no description'})"


def _mark(row: ListedBundle) -> str:
    return ("*" if row.active else "") + ("+" if row.app else "")


async def _listed(app: App, with_included: bool) -> tuple[list[ListedBundle], list[str]]:
    """Return the rows, described without the network, and the warnings."""
    registry = known_bundles(app)
    hidden = set() if with_included else _included_only(app)
    known = [one for one in registry.list() if one.origin != "registry" or one.name not in hidden]
    rows = [ListedBundle(one.name, one.origin, one.reference) for one in known]
    _mark_used(rows, app)
    fetcher = Fetcher(app.home, offline=True, environ=app.environ)
    for row in rows:
        await _describe(row, registry, fetcher, app)
    return rows, [*app.settings.warnings, *registry.warnings]


def _mark_used(rows: list[ListedBundle], app: App) -> None:
    """Mark the bundle that runs here; one that is named by its address or path gets another row."""
    active = str(app.settings.get("bundle.active") or DEFAULT)
    used = [(active, "active"), *((str(reference), "app") for reference in app.settings.get("bundle.app") or [])]
    for reference, mark in used:
        matching = [row for row in rows if reference == row.name] or [row for row in rows if reference == row.reference]
        if not matching:
            matching = [ListedBundle(reference, "reference", reference)]
            rows += matching
        for row in matching[:1]:
            setattr(row, mark, True)


async def _describe(row: ListedBundle, registry: BundleRegistry, fetcher: Fetcher, app: App) -> None:
    """Read version and description of a bundle, if it is on this machine."""
    try:
        file = await _file_of(row, registry, fetcher, app)
        document = read_bundle_file(file)
    except OfflineError:
        row.problem = "not fetched yet"
        return
    except FoundationError as error:
        row.problem = " ".join(str(error).split())
        return
    described = document.data.get("bundle")
    described = described if isinstance(described, Mapping) else {}
    row.file = str(document.path)
    row.version = str(described.get("version") or "1.0.0")
    row.description = str(described.get("description") or "") or None


async def _file_of(row: ListedBundle, registry: BundleRegistry, fetcher: Fetcher, app: App) -> Path:
    overrides = app.settings.get("sources.bundles") or {}
    reference = reference_to(app, row.name)
    file, uri = locate(reference, registry, app.project, overrides)
    if file is not None:
        return file
    if is_path(uri):
        return find_bundle_file(app.project / expanded(uri))
    fetched = await fetcher.fetch(uri, base=app.project)
    return find_bundle_file(fetched.path)


def _included_only(app: App) -> set[str]:
    """Return the names that the registry has only because another bundle includes them."""
    return {
        name
        for name, entry in _registered(app)
        if entry.get("is_root") is False and not entry.get("explicitly_requested") and not entry.get("app_bundle")
    }


def _registered(app: App) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of the registry file; looking up names reports a file that cannot be read."""
    try:
        data = json.loads(app.home.registry.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return
    entries = data.get("bundles") if isinstance(data, dict) else None
    for name, entry in (entries if isinstance(entries, dict) else {}).items():
        if isinstance(entry, Mapping):
            yield name, entry
