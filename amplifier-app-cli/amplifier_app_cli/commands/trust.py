"""`amplifier trust`: let a project name the code that runs, after showing what it names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.completion import BUNDLE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import yes_option
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_app_cli.ui.say import complain, say
from amplifier_foundation.errors import FoundationError, PathNotFoundError
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_foundation.trust.check import Refusal
    from amplifier_foundation.trust.store import Trust, TrustStore

#: At most this many names of files are shown.
_SHOWN: Final = 40


class _Inspection(NamedTuple):
    """What trusting a folder would mean."""

    folder: Path
    trust: Trust
    #: What its files name and what is refused without trust.
    named: tuple[Refusal, ...]
    #: The files that count with their content, by their path in the folder; a change of one ends the trust.
    files: Mapping[str, str]
    #: Files of bundles and code of modules in the folder that do not count in every project.
    more: tuple[Path, ...]
    #: What could not be looked at.
    problems: tuple[str, ...]


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("-B", "--bundle", type=BUNDLE, help="Include this bundle of the project.")
@click.option("--revoke", is_flag=True, help="Stop trusting the project.")
@click.option("--list", "is_list", is_flag=True, help="Print which projects are trusted.")
@yes_option()
@json_option
@report_errors
def trust(path: Path | None, bundle: str | None, revoke: bool, is_list: bool, is_sure: bool, as_json: bool) -> None:
    """Trust what the files of a project name.

    \b
    Examples:
      amplifier trust
      amplifier trust ../other --yes
      amplifier trust --revoke
      amplifier trust --list

    The files of a trusted project may name modules to run and servers to send keys to. What they name now is shown
    first. When one of them changes, the project has to be trusted again. PATH is the project, by default this folder.
    """
    from amplifier_foundation.trust.store import TrustStore

    if sum((revoke, is_list)) > 1:
        raise click.UsageError("give --revoke or --list, not both")
    app = current_app()
    store = TrustStore(app.home)
    if is_list:
        _list(store, as_json)
        return
    folder = (app.project / path).resolve() if path is not None else app.project
    if revoke:
        _revoke(app, store, folder, as_json)
        return
    inspection = _look(app, store, folder, bundle)
    if inspection.trust.trusted and _is_known(store, inspection):
        app.inform(f"{folder} is trusted already")
    else:
        _show(inspection)
        if not is_sure and not app.can_ask and as_json:
            print_json(_record(inspection, inspection.trust.state))
            sys.exit(complain(exits.USAGE, f"give --yes to trust {folder}"))
        app.confirm("Trust it?", is_sure, f"give --yes to trust {folder}")
        _trust(app, store, inspection)
    if as_json:
        print_json(_record(inspection, "trusted"))


def _trust(app: App, store: TrustStore, inspection: _Inspection) -> None:
    """Trust the folder as it was shown: what changed in the meantime is not trusted."""
    from amplifier_foundation.trust.store import TrustStoreError

    record = store.trust(inspection.folder, files=list(inspection.more))
    if record.files != inspection.files:
        store.revoke(inspection.folder)
        raise TrustStoreError(f"{inspection.folder} changed while it was looked at: it is not trusted; look again")
    app.inform(f"{inspection.folder} is trusted; files that end it when they change: {len(record.files)}")


def _is_known(store: TrustStore, inspection: _Inspection) -> bool:
    """Return whether everything that counts now was shown when the folder was trusted."""
    record = next((record for record in store.list() if record.path == inspection.folder), None)
    is_same = record is not None and inspection.files.items() <= record.files.items()
    return is_same and all(path.is_file() or store.covers(inspection.folder, path) for path in inspection.more)


def _look(app: App, store: TrustStore, folder: Path, bundle: str | None) -> _Inspection:
    """Compose the project's bundles, and return what in them needs trust; raises ControlFileError."""
    import asyncio

    from amplifier_foundation.trust.control_files import control_file_hashes

    if not folder.is_dir():
        raise PathNotFoundError(f"{folder}: not a folder, so there is nothing to trust")
    named: dict[Refusal, None] = {}
    more: dict[Path, None] = {}
    problems: list[str] = []
    for reference in _references(folder, bundle):
        try:
            asyncio.run(_compose(app, folder, reference, named, more, problems))
        except FoundationError as error:
            if reference == bundle and bundle is not None:
                raise  # it was asked about
            problems.append(str(error))
    relative = [path.relative_to(folder).as_posix() for path in more]
    files = control_file_hashes(folder, relative)
    return _Inspection(folder, store.state(folder), tuple(named), files, tuple(more), tuple(dict.fromkeys(problems)))


def _references(folder: Path, bundle: str | None) -> list[str | None]:
    """Return the bundles of the project: the one in use, its own root, those in its folder of bundles."""
    references: list[str | None] = [None, *([bundle] if bundle else [])]
    if any((folder / name).is_file() for name in ("bundle.md", "bundle.yaml")):
        references.append(str(folder))
    own = folder / ".amplifier" / "bundles"
    found = sorted(own.iterdir()) if own.is_dir() else []
    # By name, as runs and settings say it: then it is the project that names what they name.
    references += [
        path.stem if path.is_file() else path.name
        for path in found
        if (path.suffix in (".md", ".yaml") and path.is_file())
        or any((path / name).is_file() for name in ("bundle.md", "bundle.yaml"))
    ]
    return references


async def _compose(
    app: App,
    folder: Path,
    reference: str | None,
    named: dict[Refusal, None],
    more: dict[Path, None],
    problems: list[str],
) -> None:
    from amplifier_foundation.plan.prepare import Options, compose
    from amplifier_foundation.plan.project_files import code_in_project

    options = Options(app.home, folder, bundle=reference, environ=app.environ, allow_missing=True)
    composition = await compose(options)
    named |= dict.fromkeys(composition.refusals)
    problems += composition.warnings
    more |= dict.fromkeys(code_in_project(composition.composed, composition.layers, folder, app.home.path))


def _show(inspection: _Inspection) -> None:
    """Show what would be trusted, also with --quiet: the user decides by it."""
    if inspection.trust.state == "changed":
        say(f"{inspection.folder} was trusted; since then these changed: {', '.join(inspection.trust.changed)}")
    for problem in inspection.problems:
        say(f"note: {problem}")
    if inspection.named:
        say(f"What {inspection.folder} names, and would be allowed:")
        for refusal in inspection.named:
            say(f"  {refusal.where}: {refusal.what}")
    else:
        say(f"{inspection.folder} names nothing that needs trust now.")
    if inspection.files:
        names = sorted(inspection.files)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        say(f"Files that count: {', '.join(names[:_SHOWN])}{more}")


def _revoke(app: App, store: TrustStore, folder: Path, as_json: bool) -> None:
    was_known = store.revoke(folder)
    if as_json:
        print_json({"folder": str(folder), "state": "unknown", "was_trusted": was_known})
    if was_known:
        app.inform(f"{folder} is no longer trusted")
        return

    sys.exit(complain(exits.USAGE, f"{folder} was not trusted: `amplifier trust --list` prints what is"))


def _list(store: TrustStore, as_json: bool) -> None:
    records = [(record, store.state(record.path)) for record in store.list()]
    listed = [
        {
            "folder": str(record.path),
            "state": state.state,
            "trusted_at": record.trusted_at,
            "files": sorted(record.files),
            "changed": list(state.changed),
        }
        for record, state in records
    ]

    rows = [(record.path, state.state, record.trusted_at, len(record.files)) for record, state in records]
    empty = "no project is trusted: `amplifier trust [PATH]` trusts one"
    print_list(as_json, listed, ("PROJECT", "STATE", "TRUSTED AT", "FILES"), rows, empty=empty)


def _record(inspection: _Inspection, state: str) -> dict[str, Any]:
    return {
        "folder": str(inspection.folder),
        "state": state,
        "names": [{"what": refusal.what, "where": refusal.where} for refusal in inspection.named],
        "files": sorted(inspection.files),
        "problems": list(inspection.problems),
    }
