"""The one way in which commands read and change settings: scope options, a table of settings, edits and reports.

A command gets a `SettingsEditor` from `scope_options`, checks its arguments and calls `add` or `remove` with a row of
the table, which says where the setting is written and what is reported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from amplifier_app_cli.app import App, current_app
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.settings.edit import Edit
    from amplifier_foundation.settings.scopes import Scope
    from amplifier_foundation.settings.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])
Key = tuple[str, ...]

_NAMES = ("user", "project", "local", "session", "global")


class Setting(NamedTuple):
    """One row of the table: a setting, and what commands report about it.

    Its key and texts are formatted with the names that a command gives; texts also with the `file`.
    """

    key: Key
    added: str
    removed: str
    #: The error when there is nothing to remove; where the setting is found instead is added.
    missing: str
    #: The note when the scope `by` overrides what was added.
    overridden: str = ""
    #: Whether `added` and `removed` are about an item of a list.
    is_list: bool = False

    def at(self, names: Mapping[str, str]) -> Key:
        """Return the key with the names filled in."""
        return tuple(part.format(**names) for part in self.key)


ACTIVE_BUNDLE: Final = Setting(
    ("bundle", "active"),
    added="{name} is the bundle from now on ({file})",
    removed="{file} no longer chooses a bundle",
    missing="no bundle was chosen there",
    overridden="note: overridden here by {by}",
)
NAMED_BUNDLE: Final = Setting(
    ("bundle", "added", "{name}"),
    added="{name} is {bundle} {version}{more} ({file})",
    removed="{name} is no longer the name of a bundle ({file})",
    missing="{name!r} is not the name of a bundle",
)
APP_BUNDLE: Final = Setting(
    ("bundle", "app"),
    added="{name} is part of every session ({file})",
    removed="{name} is no longer part of every session ({file})",
    missing="{file} does not add {name!r} to every session",
    is_list=True,
)
MODULE: Final = Setting(
    ("modules", "{section}", "{name}"),
    added="{name} is part of every session ({file})",
    removed="{name} is no longer added ({file})",
    missing="{file} adds no module {name!r}",
)
MODULE_SOURCE: Final = MODULE._replace(key=(*MODULE.key, "source"))
SOURCE: Final = Setting(
    ("sources", "{kind}s", "{name}"),
    added="the {kind} {name} comes from {source} ({file})",
    removed="the {kind} {name} comes from the source in its bundle again ({file})",
    missing="{file} has no source for {name!r}",
    overridden="note: overridden here by {by}",
)
FOLDER: Final = Setting(
    ("overrides", "tool-filesystem", "config", "{word}_write_paths"),
    added="{name} is {word} ({file})",
    removed="{name} is no longer {word} ({file})",
    missing="{name} is not among the {word} folders of the scope {scope}",
    is_list=True,
)
#: The same where settings add the tool to every session, as other programs write it.
ADDED_FOLDER: Final = FOLDER._replace(key=("modules", "tools", "tool-filesystem", "config", "{word}_write_paths"))
PROVIDER: Final = Setting(
    ("config", "providers", "{name}"),
    added="{name} is configured in {file}; try it: `amplifier provider test {name}`",
    removed="{name} is removed from {file}",
    missing="{name} is not in {file}",
)


#: The lists of folders for the file tool; what commands add goes into the first.
FOLDERS: Final = (FOLDER, ADDED_FOLDER)


class Folder(NamedTuple):
    """One folder of a list, and the settings that name it."""

    path: str
    scope: str
    where: str


class Place(NamedTuple):
    """Where a key is set."""

    scope: Scope
    value: Any
    #: `file:line`.
    where: str


@dataclass(frozen=True)
class SettingsEditor:
    """The settings as a command sees them: all scopes, and the one that its options name."""

    app: App
    #: None when the options name no scope: then all are read, and the user's is edited.
    scope: Scope | None = None
    #: The session as the user gave it.
    session: str | None = None
    #: Shows reports to the user; None for standard error.
    show: Callable[[str], None] | None = None
    #: The edits that were made, each with its key.
    edits: list[tuple[Key, Edit]] = field(default_factory=list, compare=False)

    def inform(self, text: str) -> None:
        """Report something besides the result."""
        (self.show or self.app.inform)(text)

    @property
    def folder(self) -> Path | None:
        """Return the folder of the session, None without one; raises SessionNotFoundError."""
        if self.session is None:
            return None
        from amplifier_foundation.sessions.store import SessionStore

        return SessionStore(self.app.home).find(self.session, self.app.project).folder

    @property
    def file(self) -> Path:
        """Return the settings file to edit; raises SettingsError."""
        from amplifier_foundation.settings.scopes import scope_file

        return scope_file(self.scope or "user", self.app.home, self.app.project, self.folder)

    @property
    def settings(self) -> Settings:
        """Return the settings of all scopes, the session's too if one is named; raises SettingsError."""
        folder = self.folder
        if folder is None:
            return self.app.settings
        from amplifier_foundation.settings.settings import Settings

        return Settings.load(self.app.home, self.app.project, folder)

    def places(self, key: Key) -> list[Place]:
        """Return where a key is set, the weakest scope first."""
        from amplifier_foundation.settings.scopes import find

        return [
            Place(scope, value, document.where(*_keys_in_file(document.data, key)))
            for scope, document in self.settings.documents
            if (value := find(document.data, key)) is not None
        ]

    def folders(self, word: str) -> list[Folder]:
        """Return the `allowed` or `denied` folders of every scope, the weakest first: lists of scopes are joined."""
        from amplifier_foundation.settings.scopes import SCOPES

        places = [place for setting in FOLDERS for place in self.places(setting.at({"word": word}))]
        return [
            Folder(str(item), place.scope, place.where)
            for place in sorted(places, key=lambda place: SCOPES.index(place.scope))
            for item in (place.value if isinstance(place.value, list) else [])
        ]

    def elsewhere(self, *keys: Key) -> str:
        """Return, for a message about a missing key, which scopes have it."""
        listed = [f"{place.where} (add --scope {place.scope})" for key in keys for place in self.places(key)]
        return f": it is set in {', '.join(listed)}" if listed else ""

    def written_path(self, text: str) -> str:
        """Return a path as settings have it, so that it means the same from everywhere.

        In files of a project it is relative to the project if it is inside, else absolute.
        """
        if text.startswith("~/"):
            return text
        real = (self.app.project / text).resolve()
        if self.scope in ("project", "local") and real.is_relative_to(self.app.project):
            relative = real.relative_to(self.app.project)
            # A file beside the settings would be found first.
            if not (self.app.project / ".amplifier" / relative).exists():
                return f"./{relative.as_posix()}"
        return str(real)

    # -- editing --

    def add(self, setting: Setting, value: Any, **names: str) -> Edit:
        """Set or append a value, and report it, with a note when a stronger scope overrides it."""
        from amplifier_foundation.settings.scopes import SCOPES

        key = setting.at(names)
        edit = self.append(key, value) if setting.is_list else self.set(key, value)
        self.inform(setting.added.format(**names, file=edit.path))
        own = SCOPES.index(self.scope or "user")
        stronger = [place for place in self.places(key) if SCOPES.index(place.scope) > own]
        if setting.overridden and stronger:
            self.inform(setting.overridden.format(**names, by=stronger[-1].where))
        return edit

    def remove(self, setting: Setting, *candidates: Mapping[str, str], hint: str = "") -> None:
        """Remove the first of these that the scope has, each given by its names, and report it.

        The item of a list is the name `value`. When the scope has none of them, raises SettingNotFoundError with the
        scopes that have it, or else the hint.
        """
        from amplifier_foundation.settings.scopes import SettingNotFoundError

        for names in candidates:
            if self.take_out(setting, names):
                return
        others = "" if setting.is_list else self.elsewhere(*(setting.at(names) for names in candidates))
        raise SettingNotFoundError(setting.missing.format(**candidates[0], file=self.file) + (others or hint))

    def take_out(self, setting: Setting, names: Mapping[str, str]) -> bool:
        """Remove one setting and report it; return whether the scope had it."""
        key = setting.at(names)
        edit = self.remove_item(key, names["value"]) if setting.is_list else self.unset(key)
        if edit.changed:
            self.inform(setting.removed.format(**names, file=edit.path))
        return edit.changed

    def set(self, key: Key, value: Any) -> Edit:
        """Set a key; raises SettingsError and TrustStoreError, as all edits do."""
        from amplifier_foundation.settings.edit import set_value

        return self._edit(set_value, key, value)

    def unset(self, key: Key) -> Edit:
        """Remove a key."""
        from amplifier_foundation.settings.edit import unset_value

        return self._edit(unset_value, key)

    def append(self, key: Key, value: Any) -> Edit:
        """Append an item to the list at a key unless it has it already."""
        from amplifier_foundation.settings.edit import append_value

        return self._edit(append_value, key, value)

    def remove_item(self, key: Key, value: Any) -> Edit:
        """Remove an item from the list at a key."""
        from amplifier_foundation.settings.edit import remove_item

        return self._edit(remove_item, key, value)

    def _edit(self, edit_value: Callable[..., Edit], key: Key, *values: Any) -> Edit:
        """Edit the file, and report which secrets went to the key store.

        A trusted project stays trusted: the user made this change.
        """
        from amplifier_foundation.trust.store import TrustStore

        app, file, keys = self.app, self.file, self.app.key_store()
        trust = TrustStore(app.home)
        is_shared = self.scope in ("project", "local")
        relative = file.relative_to(app.project).as_posix() if is_shared else ""
        before = trust.state(app.project) if is_shared else None
        edit = edit_value(file, key, *values, keys)
        self.edits.append((key, edit))
        # Changes that someone else made to this file before are not accepted along with it.
        if edit.changed and before is not None and before.problem is None and relative not in before.changed:
            trust.accept(app.project, file)
        for moved in edit.moved:
            self.inform(f"{moved.key}: the secret is in {keys.path} as {moved.variable}; the settings refer to it")
        for warning in keys.warnings:
            self.inform(f"warning: {warning}")
        return edit


def report(app: App, as_json: bool, text: str, record: Mapping[str, Any]) -> None:
    """Report an edit: its record for programs, or else a line for the user."""
    from amplifier_app_cli.ui.records import print_json

    if as_json:
        print_json(record)
    elif text:
        app.inform(text)


def with_json_of_edits(command: Function) -> Function:
    """Let a command that changes settings take `as_json`, and print the edits that it made as one JSON document."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, editor: SettingsEditor, as_json: bool, **options: Any) -> Any:
        result = command(*arguments, editor=editor, **options)
        if as_json:
            from amplifier_app_cli.ui.records import print_json

            made = [
                {"key": ".".join(key), "file": str(edit.path), "changed": edit.changed} for key, edit in editor.edits
            ]
            print_json({"changed": any(edit["changed"] for edit in made), "edits": made})
        return result

    return wrapped  # type: ignore[return-value]


def scope_options(command: Function) -> Function:
    """Add `--scope`, its short forms and `--session` to a command, which gets them as one `editor: SettingsEditor`."""

    @click.option("--session", "session", metavar="ID", help="The session that the scope `session` is about.")
    @click.option("--global", "flags", flag_value="user", multiple=True, help="The same as --scope user.")
    @click.option("--project", "flags", flag_value="project", multiple=True, help="The same as --scope project.")
    @click.option("--local", "flags", flag_value="local", multiple=True, help="The same as --scope local.")
    @click.option("--scope", "scope", type=click.Choice(_NAMES), metavar="|".join(_NAMES[:-1]), help="Whose settings.")
    @functools.wraps(command)
    def wrapped(*arguments: Any, scope: str | None, flags: tuple[str, ...], session: str | None, **options: Any) -> Any:
        return command(*arguments, editor=_editor(scope, flags, session), **options)

    return wrapped  # type: ignore[return-value]


def _editor(scope: str | None, flags: tuple[str, ...], session: str | None) -> SettingsEditor:
    from amplifier_foundation.settings.scopes import parse_scope

    named = {parse_scope(name) for name in (*flags, *((scope,) if scope else ()), *(("session",) if session else ()))}
    if len(named) > 1:
        raise click.UsageError(f"choose one scope: {', '.join(sorted(named))} were given")
    chosen = named.pop() if named else None
    if chosen == "session" and session is None:
        raise click.UsageError("--scope session needs --session ID")
    return SettingsEditor(current_app(), chosen, session)


def _keys_in_file(data: Any, key: Key) -> Iterator[str | int]:
    """Yield the keys in the file that lead to a setting; the only lists on the way hold modules."""
    from amplifier_foundation.settings.scopes import position

    value = data
    for part in key:
        if isinstance(value, list):
            index = position(value, part)
            if index is None:
                return
            yield index
            value = value[index]
        else:
            yield part
            value = value.get(part) if isinstance(value, dict) else None
