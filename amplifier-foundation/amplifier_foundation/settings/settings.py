"""Load the settings of all scopes, merge them, and say which file set what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from amplifier_foundation.documents import Document, parse_document
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.merge import SETTINGS, copied, merge_all, module_key
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.checks import check_settings
from amplifier_foundation.settings.scopes import (
    SCOPES,
    Key,
    Scope,
    SettingsError,
    anchored,
    find,
    is_united,
    leaves,
    parts_of,
    scope_file,
)
from amplifier_foundation.settings.variables import Expanded, expand
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

#: The scope of settings that the program was given for this run, from no file.
GIVEN = "given"


class LostValue(NamedTuple):
    """A value that a stronger scope replaced."""

    value: Any
    scope: Scope | Literal["given"]
    #: `file:line`.
    where: str


class SettingOrigin(NamedTuple):
    """One setting, the scope that set it, and the values it replaced. Secrets in clear are masked."""

    key: str
    value: Any
    scope: Scope | Literal["given"]
    where: str
    #: The strongest first.
    lost: tuple[LostValue, ...]


class Settings(FrozenStruct):
    """The settings of all scopes together; `data` is merged and holds `${VAR}` as written."""

    data: dict[str, Any] = field(default_factory=dict, repr=False)
    #: The files that exist, the weakest first; their data is without empty sections, paths are absolute.
    documents: tuple[tuple[Scope, Document], ...] = field(default=(), repr=False)
    #: Settings that override every file: flags of the program.
    given: dict[str, Any] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(
        cls,
        home: Home,
        project: Path | None = None,
        session_folder: Path | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> Settings:
        """Read the files of all scopes that have a folder; `extra`, of the same shape, is merged on top.

        Raises SettingsError with file and line for a file that cannot be read or parsed, for unknown keys and for
        values of the wrong kind: settings are never ignored.
        """
        documents: list[tuple[Scope, Document]] = []
        warnings: list[str] = []
        for scope, path in _files(home, project, session_folder):
            document = read_settings_file(path)
            if document is None:
                continue
            data, found = check_settings(document.data, document.where)
            data = anchored(data, path, project if scope in ("project", "local") else None)
            documents.append((scope, replace(document, data=data)))
            warnings += found
        given, found = check_settings(extra or {}, _where_given)
        merged = merge_all([*(document.data for _, document in documents), given], SETTINGS)
        settings = cls(merged, tuple(documents), given, (*warnings, *found))
        settings._check_modules()
        return settings

    def get(self, key: Key, default: Any = None) -> Any:
        """Return a copy of the value at a dotted key; `default` when it is not set."""
        value = find(self.data, parts_of(key))
        return default if value is None else copied(value)

    def expanded(self, environ: Mapping[str, str]) -> Expanded:
        """Return the settings with variables expanded, and which of them are not set."""
        return expand(self.data, environ)

    def explain(self) -> list[SettingOrigin]:
        """Return every setting with its origin, in the order of the merged settings."""
        from amplifier_foundation.settings.secrets import masked

        values = [
            (parts, LostValue(masked(parts, value), scope, where)) for parts, scope, where, value in self._values()
        ]
        origins: list[SettingOrigin] = []
        for parts, _, value in leaves(self.data):
            *lost, won = [value_at for at, value_at in values if _overlap(at, parts)]
            losers = () if is_united(parts) else tuple(reversed(lost))
            origins.append(SettingOrigin(".".join(parts), masked(parts, value), won.scope, won.where, losers))
        return origins

    def _values(self) -> list[tuple[tuple[str, ...], Scope | Literal["given"], str, Any]]:
        """Return every value of every scope, the weakest first."""
        values: list[tuple[tuple[str, ...], Scope | Literal["given"], str, Any]] = []
        for scope, document in self.documents:
            values += [(parts, scope, document.where(*keys), value) for parts, keys, value in leaves(document.data)]
        return values + [(parts, "given", _where_given(), value) for parts, _, value in leaves(self.given)]

    def _check_modules(self) -> None:
        """Raise SettingsError when an entry with an `id` has no module in any scope."""
        lists = {("config", "providers"): find(self.data, ("config", "providers")) or []}
        for section, entries in (self.data.get("modules") or {}).items():
            lists["modules", section] = entries if isinstance(entries, list) else []
        for place, entries in lists.items():
            for entry in entries:
                if isinstance(entry, Mapping) and not entry.get("module"):
                    raise SettingsError(self._no_module((*place, str(module_key(entry)))))

    def _no_module(self, parts: tuple[str, ...]) -> str:
        where = next(where for at, _, where, _ in self._values() if at[: len(parts)] == parts)
        return f"{where}: `{'.'.join(parts)}` names no module, and no other settings file does: add `module: …`"


def read_settings_file(path: Path) -> Document | None:
    """Return the document in a settings file, None when the file is missing; raises SettingsError."""
    try:
        content = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not content.strip():
        return Document(path)  # without loading a YAML library
    try:
        return parse_document(path, content)
    except DocumentError as error:
        raise SettingsError(str(error)) from error


def _files(home: Home, project: Path | None, session_folder: Path | None) -> list[tuple[Scope, Path]]:
    """Return the files of all scopes that have a folder, each file once: the home of a user may be a project too."""
    files: dict[Path, Scope] = {}
    for scope in SCOPES:
        if (project is None and scope in ("project", "local")) or (session_folder is None and scope == "session"):
            continue
        path = scope_file(scope, home, project, session_folder)
        if scope == "user" or not _is_same(path, home.settings):
            files[path] = scope
    return [(scope, path) for path, scope in files.items()]


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path == other or path.samefile(other)
    except OSError:
        return False  # one of them is missing


def _where_given(*_: str | int) -> str:
    return "given for this run"


def _overlap(at: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether setting one key replaces the other: the same key, or one inside the other."""
    shorter = min(len(at), len(parts))
    return tuple(at[:shorter]) == tuple(parts[:shorter])
