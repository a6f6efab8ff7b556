"""Take over a home of the published program: settings, keys, bundles, own files and sessions.

Planning reads, `apply` writes; the published home is only ever read. What is in this home already stays as it is, so
that a second run finds nothing to do, and a run that was interrupted is completed by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from amplifier_foundation.bundles.shipped import shipped_bundles
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked
from amplifier_foundation.merge import module_key
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.checks import check_settings
from amplifier_foundation.settings.edit import set_value
from amplifier_foundation.settings.keys import KeyLine, KeysError, KeyStore, parse_lines
from amplifier_foundation.settings.scopes import SettingsError, find, is_module_list
from amplifier_foundation.settings.settings import read_settings_file
from amplifier_kit.guard.private_files import append, make_private, open_private, read_regular, replace_file
from amplifier_kit.guard.redaction.field_names import is_secret_name
from amplifier_kit.named_tuple import NamedTuple

#: Folders of the user's own files, which are copied entry by entry.
_OWN: Final = ("bundles", "modules", "agents", "skills", "routing")
#: What the published program keeps of a session, also rotated or as a backup. Other files there would decide something:
#: a policy, settings, or a plan that is run when the session is resumed.
_OF_SESSION: Final = ("transcript.jsonl", "metadata.json", "events.jsonl")
#: Larger files are copied in pieces of whole lines, each masked by itself.
_PIECE: Final = 4 << 20
#: The folder that a session is in until all of it is copied.
_PARTIAL: Final = ".migrating-"
#: Where the published program keeps the topic of notifications, in clear.
_TOPICS: Final = {("config", "notifications", channel, "topic") for channel in ("ntfy", "push")}
_CREDENTIALS: Final = "an address in it holds credentials, which belong into a credential helper of git"
#: What differs for everybody, with what to do.
_ALWAYS: Final = (
    "writing files, commands, fetches and agents are asked for unless a rule allows them: `amplifier policy list`",
    "what a project's files name runs after `amplifier trust` in that project",
    "modules and bundles from addresses are fetched when they are first used: no cache is taken over",
)

Action = Literal["take over", "keep", "leave", "failed"]


class MigrationError(FoundationError):
    """The published home cannot be read, or may not be the source for this one."""

    code = "migration_impossible"


class Item(NamedTuple):
    """One thing in the published home. No field ever holds a secret."""

    category: str
    name: str
    #: "keep": it is here already. "leave": it is not taken over, for the reason in `note`.
    action: Action
    note: str = ""


class Step(NamedTuple):
    """An item, and how to take it over."""

    item: Item
    apply: Callable[[], object] | None = None


class Migration:
    """The way from one published home to this one."""

    def __init__(self, source: Path, home: Home) -> None:
        """Raises MigrationError for a missing source, and for homes inside of each other."""
        self.source = Home(source.absolute())
        self.home = home
        if not source.is_dir():
            raise MigrationError(f"{source}: there is no such folder: name the home of the published program")
        ours, theirs = home.path.resolve(), source.resolve()
        #: Whether it is the same home: then everything is read where it is.
        self.is_same = ours == theirs
        if not self.is_same and (ours.is_relative_to(theirs) or theirs.is_relative_to(ours)):
            raise MigrationError(f"{source} and {home.path} lie inside of each other: choose another AMPLIFIER_HOME")
        self._keys = KeyStore(home, {})
        #: What works differently here.
        self.differences: list[str] = []

    def plan(self) -> list[Step]:
        """Return everything that is there, in the order in which it is taken over; changes nothing."""
        self.differences = []
        steps = [*self._plan_keys(), *self._plan_settings(), *self._plan_bundles(), *self._plan_own_files()]
        steps += [*self._plan_sessions("sessions"), *self._plan_sessions("recipe-sessions")]
        self.differences += _ALWAYS
        return steps

    def apply(self) -> list[Item]:
        """Take over what is missing here, and return what was done; a failure does not stop the rest."""
        make_private(self.home.path)
        with locked(self.home.path / "migrate.lock"):
            return [_applied(step) for step in self.plan()]

    # -- keys --

    def _plan_keys(self) -> Iterator[Step]:
        try:
            lines, here = self._key_lines(self.source), {line.name for line in self._key_lines(self.home)}
        except KeysError as error:
            yield Step(Item("keys", "keys.env", "leave", str(error)))
            return
        for name, value in {line.name: line.value for line in lines if line.name is not None}.items():
            if name in here:
                yield Step(Item("keys", name, "keep"))
            elif not value:
                why = "it has no value in the file: `amplifier keys set` stores it"
                yield Step(Item("keys", name, "leave", why))
            else:
                yield Step(Item("keys", name, "take over"), partial(self._keys.set, name, value))

    def _key_lines(self, home: Home) -> list[KeyLine]:
        try:
            content = read_regular(home.keys)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise KeysError(f"{home.keys}: cannot be read: {error.strerror or error}") from error
        return parse_lines(home.keys, content)

    # -- settings --

    def _plan_settings(self) -> Iterator[Step]:
        try:
            document, own = read_settings_file(self.source.settings), read_settings_file(self.home.settings)
        except SettingsError as error:
            yield Step(Item("settings", "settings.yaml", "leave", str(error)))
            return
        data = document.data if document is not None else {}
        if find(data, ("bundle", "active")) is None:
            advice = "`amplifier bundle use anchors` makes the published default that of this home"
            self.differences.append(f"no bundle is set as active: {advice}")
        here = own.data if own is not None else {}
        for key, value in _leaves(data, ()):
            yield self._plan_setting(key, value, find(here, key))

    def _plan_setting(self, key: tuple[str, ...], value: Any, own: Any) -> Step:
        name = ".".join(key)
        if own is not None or self.is_same:
            kept = "it is set here already" if own is not None and own != value else ""
            return Step(Item("settings", name, "keep", kept))
        if key in _TOPICS:
            why = "whoever knows it reads the notices: `amplifier keys set AMPLIFIER_NTFY_TOPIC` stores it as a key"
            return Step(Item("settings", name, "leave", why))
        if _has_credentials(value):
            return Step(Item("settings", name, "leave", _CREDENTIALS))
        try:
            _, warnings = check_settings(_nested(key, value), lambda *_: name)
        except SettingsError as error:
            return Step(Item("settings", name, "leave", str(error)))
        self.differences += warnings

        work = partial(set_value, self.home.settings, key, value, self._keys)
        return Step(Item("settings", name, "take over"), work)

    # -- bundles --

    def _plan_bundles(self) -> Iterator[Step]:
        here = self._known_bundles()
        for name, entry in self._registered(self.source).items():
            uri = entry.get("uri") if isinstance(entry, Mapping) else None
            if not isinstance(uri, str) or not (entry.get("explicitly_requested") or entry.get("app_bundle")):
                continue  # a part of another bundle
            if name in shipped_bundles():
                yield Step(
                    Item("bundles", name, "leave", "a bundle of this name comes with Amplifier, and works offline")
                )
            elif name in here:
                yield Step(Item("bundles", name, "keep"))
            elif _has_credentials(uri):
                yield Step(Item("bundles", name, "leave", _CREDENTIALS))
            else:
                key = ("bundle", "added", name)
                work = partial(set_value, self.home.settings, key, uri, self._keys)
                yield Step(Item("bundles", name, "take over"), work)

    def _known_bundles(self) -> set[str]:
        document = read_settings_file(self.home.settings)
        added = find(document.data, ("bundle", "added")) if document is not None else None
        theirs = read_settings_file(self.source.settings)
        # Those in the settings are taken over with them.
        also = find(theirs.data, ("bundle", "added")) if theirs is not None else None
        return {*(added or {}), *(also or {}), *self._registered(self.home)}

    def _registered(self, home: Home) -> dict[str, Any]:
        try:
            data = json.loads(read_regular(home.registry))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self.differences.append(f"{home.registry}: the registry of bundles cannot be read: {error}")
            return {}
        bundles = data.get("bundles") if isinstance(data, dict) else None
        return bundles if isinstance(bundles, dict) else {}

    # -- files --

    def _plan_own_files(self) -> Iterator[Step]:
        for folder in _OWN:
            if (self.source.path / folder).is_symlink():
                yield Step(Item(folder, folder, "leave", "it is a link, which is not followed"))
                continue
            for entry in _entries(self.source.path / folder):
                yield self._plan_copy(folder, entry.name, entry, self.home.path / folder / entry.name)

    def _plan_sessions(self, kind: str) -> Iterator[Step]:
        for project in _entries(self.source.projects):
            if project.is_symlink():
                yield Step(Item(kind, f"{project.name}/", "leave", "it is a link, which is not followed"))
                continue
            for session in _entries(project / kind):
                name, target = f"{project.name}/{session.name}", self.home.projects / project.name / kind / session.name
                if session.is_dir() and not session.name.startswith(_PARTIAL):
                    yield self._plan_copy(kind, name, session, target)

    def _plan_copy(self, category: str, name: str, source: Path, target: Path) -> Step:
        if self.is_same or os.path.lexists(target):
            return Step(Item(category, name, "keep"))
        if source.is_symlink():
            return Step(Item(category, name, "leave", "it is a link, which is not followed"))
        names = _OF_SESSION if category == "sessions" else ("",)
        return Step(Item(category, name, "take over"), partial(_copy, source, target, names))


def _has_credentials(value: Any) -> bool:
    """Return whether a value holds an address with a password, a token in place of a user, or one in its query."""
    if isinstance(value, Mapping | list):
        return any(map(_has_credentials, value.values() if isinstance(value, Mapping) else value))
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        parts = urlsplit(value)
        has_token = any(is_secret_name(name) for name, _ in parse_qsl(parts.query))
    except ValueError:
        return True  # it cannot be read: it may hold one
    is_web = parts.scheme.removeprefix("git+") in ("http", "https")
    is_token = is_web and parts.username not in (None, "", "git") and not str(parts.username).startswith("${")
    return parts.password is not None or is_token or has_token


def _applied(step: Step) -> Item:
    if step.apply is None:
        return step.item
    try:
        step.apply()
    except SettingsError as error:  # such as a secret in a place where no key can stand for it
        return step.item._replace(action="leave", note=str(error))
    except (FoundationError, OSError) as error:
        return step.item._replace(action="failed", note=str(error))
    return step.item


def _leaves(value: Any, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each setting that is set by itself: values, whole lists, and modules of lists of modules."""
    if isinstance(value, list) and is_module_list(key):
        yield from (((*key, name), entry) for entry in value if (name := module_key(entry)) is not None)
    elif isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*key, str(name)))
    elif key and value not in (None, {}):
        yield key, value


def _nested(key: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return settings with one value."""
    found: Any = value
    for depth in reversed(range(len(key))):
        found = [found] if is_module_list(key[:depth]) else {key[depth]: found}
    return dict(found)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _copy(source: Path, target: Path, names: tuple[str, ...]) -> None:
    """Copy a file, or a folder that appears when it is complete, without the links in it. Secrets are masked.

    Of a folder the files are copied whose names begin with one of `names`.
    """
    make_private(target.parent)
    unfinished = target.parent / f"{_PARTIAL}{target.name}"
    if unfinished.is_dir():
        shutil.rmtree(unfinished)  # of a run that was interrupted
    if source.is_dir():
        for folder, folders, files in os.walk(source):
            is_link = {name for name in folders if os.path.islink(os.path.join(folder, name))}
            folders[:] = [name for name in folders if name not in is_link and name.startswith(names)]
            make_private(unfinished / os.path.relpath(folder, source))
            for name in (name for name in files if name.startswith(names)):
                _copy_file(Path(folder, name), unfinished / os.path.relpath(folder, source) / name)
    else:
        _copy_file(source, unfinished)
    os.rename(unfinished, target)


def _copy_file(source: Path, target: Path) -> None:
    if source.is_symlink() or not source.is_file():
        return
    is_executable = os.access(source, os.X_OK)
    if source.stat().st_size <= _PIECE or source.name.startswith("metadata.json"):
        replace_file(
            target, _without_choices(source.name, read_regular(source)), mode=0o700 if is_executable else 0o600
        )
    else:
        descriptor = open_private(target)
        try:
            with source.open("rb") as file:
                while lines := file.readlines(_PIECE):
                    append(descriptor, b"".join(lines))
        finally:
            os.close(descriptor)
    times = source.stat()
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _without_choices(name: str, content: bytes) -> bytes:
    """Return the metadata of a session without what decides how it goes on: whoever wrote them did not ask the user.

    A bundle by its name stays, one by its path or address does not. Other files are returned as they are.
    """
    try:
        data = json.loads(content) if name.startswith("metadata.json") else None
    except ValueError:
        return content  # nothing can be resumed from it
    if not isinstance(data, dict):
        return content
    kept = {key: value for key, value in data.items() if key != "permission_mode"}
    if "/" in str(kept.get("bundle", "")):
        del kept["bundle"]
    return content if kept == data else json.dumps(kept, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
