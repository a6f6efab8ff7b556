"""`amplifier settings reset`: delete what the program keeps, by category, after having shown it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import yes_option
from amplifier_app_cli.ui.layout import size_text, table
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.say import complain, say
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.settings.keys import KeysError, KeyStore
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App

CATEGORIES: Final = ("projects", "settings", "keys", "cache", "registry", "other")
_TITLES: Final = {
    "projects": "sessions, their logs, the index of them",
    "settings": "your settings",
    "keys": "API keys",
    "cache": "what was fetched and installed; it is fetched again",
    "registry": "known bundles and their locks",
    "other": "your own bundles, modules, agents, trusted folders, and the rest",
}
#: Files in the home, by the beginning of their names: the lock and the backup of a file belong to it.
_NAMES: Final = {
    "projects": ("projects", "index.sqlite"),
    "settings": ("settings.yaml", "routing"),
    "keys": ("keys.env",),
    "cache": ("cache", ".last_update_check", ".update_cache.json"),
    "registry": ("registry.json", "locks", "bundle-registry.yaml"),
}


class _Part(NamedTuple):
    """One category: its files and their size."""

    category: str
    paths: tuple[Path, ...]
    bytes: int


def _categories(text: str) -> tuple[str, ...]:
    """Return the categories of a text with commas in it; raises BadParameter for one there is not."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in CATEGORIES:
            raise click.BadParameter(f"unknown category {name!r}: {did_you_mean(name, list(CATEGORIES))}")
    return names


def _parsed(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else _categories(value)


@click.command()
@click.option("--remove", callback=_parsed, metavar="CATS", help="Delete these categories.")
@click.option("--preserve", callback=_parsed, metavar="CATS", help="Delete all categories but these.")
@click.option("--full", is_flag=True, help="Delete everything.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@yes_option()
@click.option("--no-install", is_flag=True, help="Does nothing: a reset installs nothing. For older scripts.")
@json_option
@report_errors
def reset(
    remove: tuple[str, ...] | None,
    preserve: tuple[str, ...] | None,
    full: bool,
    dry_run: bool,
    is_sure: bool,
    no_install: bool,
    as_json: bool,
) -> None:
    """Delete what the program keeps in its home.

    \b
    Examples:
      amplifier settings reset --remove cache
      amplifier settings reset --preserve projects,keys --dry-run
      amplifier settings reset --full --yes

    CATS are categories with commas between them: projects, settings, keys, cache, registry, other. What a link in the
    home leads to is not deleted, only the link.
    """
    if sum((remove is not None, preserve is not None, full)) > 1:
        raise click.UsageError("give one of --remove, --preserve and --full")
    app = current_app()
    parts = _parts(app.home.path)
    wanted = _wanted(app, parts, remove, preserve, full)
    doomed = [part for part in parts if part.category in wanted and part.paths]
    _check(app, doomed)
    if not as_json:
        _show(app, parts, wanted)
    if doomed and not dry_run:
        names = ", ".join(part.category for part in doomed)
        app.confirm(
            f"Delete {names}? It cannot be undone", is_sure, f"give --yes to delete {names}, or look with --dry-run"
        )
        _delete(app, doomed)
    if as_json:
        print_json(_record(app, doomed, dry_run))
    elif not doomed:
        app.inform("there is nothing to delete")
    elif not dry_run:
        app.inform(f"deleted: {', '.join(part.category for part in doomed)}")


def _wanted(
    app: App,
    parts: list[_Part],
    remove: tuple[str, ...] | None,
    preserve: tuple[str, ...] | None,
    full: bool,
) -> tuple[str, ...]:
    """Return the categories to delete: as the options say, else as the user says when asked."""
    if full:
        return CATEGORIES
    if preserve is not None:
        return tuple(name for name in CATEGORIES if name not in preserve)
    if remove is not None:
        return remove
    if not app.can_ask:
        raise click.UsageError("say what to delete: --remove CATS, --preserve CATS or --full (with --yes)")
    if not any(part.paths for part in parts):
        return ()
    _show(app, parts, ())
    answer: tuple[str, ...] = click.prompt("Delete which categories", value_proc=_categories, err=True)
    return answer


def _parts(home: Path) -> list[_Part]:
    """Return all categories with their files in the home; the rest is `other`."""
    found: dict[str, list[Path]] = {category: [] for category in CATEGORIES}
    for path in sorted(home.iterdir()) if home.is_dir() else ():
        found[_category(path.name)].append(path)
    return [_Part(category, tuple(paths), sum(map(_size, paths))) for category, paths in found.items()]


def _category(name: str) -> str:
    for category, names in _NAMES.items():
        if any(name == known or name.startswith((f"{known}.", f"{known}-")) for known in names):
            return category
    return "other"


def _size(path: Path) -> int:
    """Return how many bytes a file or folder has; links count as themselves."""
    from amplifier_foundation.sessions.cleanup import folder_bytes

    return folder_bytes(path) if path.is_dir() and not path.is_symlink() else path.lstat().st_size


def _check(app: App, doomed: list[_Part]) -> None:
    """Exit if the home has files of other programs, or if a session runs in it."""
    from amplifier_foundation.sessions.log import is_running

    categories = {part.category for part in doomed}
    if "other" in categories:
        _check_home(app)
        universes = app.home.path / "digital-twin" / "universes"
        if universes.is_dir() and any(universes.iterdir()):
            _refuse(f"{universes} holds universes: `amplifier-digital-twin destroy` or `prune --mine` them first")
    if "projects" in categories:
        for session in _sessions(app.home.projects):
            if is_running(session):
                _refuse(f"session {session.name} runs ({session}): end it first")


def _check_home(app: App) -> None:
    """Exit when deleting everything in the home would delete files of other programs."""
    home = app.home.path.resolve()
    for folder in (Path(app.environ.get("HOME") or "/").resolve(), app.project):
        if folder.is_relative_to(home):
            _refuse(f"{folder} is in {home}, and `other` would delete it too: name other categories")
    if all(_category(path.name) == "other" and path.name != "digital-twin" for path in home.iterdir()):
        _refuse(f"{home} does not look like a home of this program: delete it by hand if you want that")


def _refuse(why: str) -> NoReturn:
    sys.exit(complain(exits.FAILURE, why))


def _sessions(projects: Path) -> Iterator[Path]:
    if projects.is_symlink():
        return
    yield from (path for path in projects.glob("*/sessions/*") if path.is_dir())


def _show(app: App, parts: list[_Part], wanted: Iterable[str]) -> None:
    """Show what exists and what would be deleted."""
    rows = [
        (part.category, size_text(part.bytes), "delete" if part.category in wanted else "keep", _TITLES[part.category])
        for part in parts
        if part.paths
    ]
    say(f"{app.home.path}:")
    if rows:
        say(table(("CATEGORY", "SIZE", "", "WHAT"), rows))


def _delete(app: App, doomed: list[_Part]) -> None:
    """Delete the parts; raises OSError, naming the file, for one that cannot be deleted."""
    if any(part.category == "keys" for part in doomed):
        _empty_keyring(app)
    categories = [part.category for part in doomed]
    for part in _parts(app.home.path):  # read again: the key store created a lock file
        for path in part.paths if part.category in categories else ():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)  # which deletes links, not what they lead to
            else:
                path.unlink(missing_ok=True)


def _empty_keyring(app: App) -> None:
    """Remove the keys that only the keyring holds: without the file they could not be found again."""
    store = KeyStore(app.home, {})  # an environment would hide which keys are in the keyring
    try:
        for entry in store.list():
            if entry.where == "keyring":
                store.remove(entry.name)
    except KeysError as error:
        app.inform(f"warning: keys in the keyring, if there are any, stay: {error}")
    app.warn(store.warnings)


def _record(app: App, doomed: list[_Part], dry_run: bool) -> dict[str, object]:
    return {
        "home": str(app.home.path),
        "dry_run": dry_run,
        "categories": [
            {"category": part.category, "bytes": part.bytes, "paths": [str(path) for path in part.paths]}
            for part in doomed
        ],
    }
