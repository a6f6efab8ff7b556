"""Know bundles by name: those of the project, then the user, the settings, the registry file and the product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from amplifier_foundation.bundles.bundle import Bundle
from amplifier_foundation.bundles.layer import Namer
from amplifier_foundation.files import FileBusyError, locked, replace_file
from amplifier_foundation.paths import Home

_VERSION: Final = 1
_PATTERNS: Final = ("{}/bundle.md", "{}/bundle.yaml", "{}.yaml", "{}.md")

Origin = Literal["project", "user", "settings", "registry", "product"]


class KnownBundle(NamedTuple):
    """A name and what it stands for."""

    name: str
    #: A path or an address.
    reference: str
    origin: Origin
    #: On whose word the name means this.
    named_by: Namer


class BundleRegistry:
    """Look up names of bundles. Nothing is fetched, and nothing is written unless `record` is called."""

    def __init__(
        self,
        home: Home,
        project: Path | None,
        added: Mapping[str, str] | None = None,
        shipped: Mapping[str, Path] | None = None,
        *,
        added_by: Mapping[str, Namer] | None = None,
    ) -> None:
        self._home = home
        self._project = project
        self._added = dict(added or {})
        self._added_by = dict(added_by or {})
        self._shipped = dict(shipped or {})
        self._recorded: dict[str, Any] | None = None
        #: What could not be read or written; none of it stops anything.
        self.warnings: list[str] = []

    def find(self, name: str) -> KnownBundle | None:
        """Return what a name stands for, None when nothing has it; `name/sub/path` is looked for below the folders."""
        for folder, origin in self._folders():
            for pattern in _PATTERNS:
                path = folder / pattern.format(name)
                if path.is_file():
                    return KnownBundle(name, str(path), origin, "project" if origin == "project" else "user")
        return next((known for known in self._by_name() if known.name == name), None)

    def list(self) -> list[KnownBundle]:
        """Return every known name with what `find` would return for it, sorted."""
        known: dict[str, KnownBundle] = {}
        for folder, origin in self._folders():
            for name in _names_in(folder):
                found = self.find(name)
                if found is not None and found.origin == origin:
                    known.setdefault(name, found)
        for bundle in self._by_name():
            known.setdefault(bundle.name, bundle)
        return [known[name] for name in sorted(known)]

    def record(self, bundle: Bundle, *, explicitly_requested: bool = False, app_bundle: bool = False) -> bool:
        """Remember a bundle that was loaded, with the bundles it includes, in the registry file; return whether it is.

        What a project's files name is not remembered: the registry speaks for the user in every project. A file that
        cannot be written or understood is left as it is, and `warnings` says so.
        """
        entries = _entries(bundle, explicitly_requested, app_bundle)
        if not entries:
            return False
        path = self._home.registry
        try:
            with locked(path.with_name(f"{path.name}.lock")):
                data = self._read(fresh=True)
                if data is None:
                    return False  # `_read` has told why
                if _update(data, entries):
                    replace_file(path, _encoded(data))
        except (OSError, FileBusyError) as error:
            self.warnings.append(f"{path}: the bundle {bundle.name!r} cannot be remembered: {error}")
            return False
        self._recorded = data
        return True

    def _folders(self) -> Iterator[tuple[Path, Origin]]:
        user = self._home.bundles
        if self._project is not None:
            folder = self._project / ".amplifier" / "bundles"
            if folder.resolve() != user.resolve():  # in the home directory itself they are one, the user's
                yield folder, "project"
        yield user, "user"

    def _by_name(self) -> Iterator[KnownBundle]:
        for name, reference in self._added.items():
            yield KnownBundle(name, reference, "settings", self._added_by.get(name, "user"))
        for name, entry in ((self._read() or {}).get("bundles") or {}).items():
            if isinstance(entry, Mapping) and isinstance(entry.get("uri"), str) and entry["uri"]:
                yield KnownBundle(name, entry["uri"], "registry", "user")
        for name, path in self._shipped.items():
            yield KnownBundle(name, str(path), "product", "product")

    def _read(self, *, fresh: bool = False) -> dict[str, Any] | None:
        """Return what the registry file holds, None when it cannot be understood, which is told once."""
        if self._recorded is not None and not fresh:
            return self._recorded
        import json

        path = self._home.registry
        try:
            data = json.loads(path.read_bytes().decode("utf-8-sig"))
            if not isinstance(data, dict) or not isinstance(data.get("bundles", {}), dict):
                raise ValueError("it does not hold a mapping of `bundles`")
        except FileNotFoundError:
            data = {"version": _VERSION, "bundles": {}}
        except (OSError, ValueError, RecursionError) as error:
            warning = f"{path}: the registry of bundles is not used, it cannot be read: {error}"
            if warning not in self.warnings:
                self.warnings.append(warning)
            self._recorded = {}
            return None
        self._recorded = data
        return self._recorded


def _names_in(folder: Path) -> list[str]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return []  # most projects and homes have none
    names = {entry.stem if entry.suffix in (".yaml", ".md") else entry.name for entry in entries}
    return sorted(name for name in names if not name.startswith("."))


def _entries(bundle: Bundle, explicitly_requested: bool, app_bundle: bool) -> dict[str, dict[str, Any]]:
    """Return what to remember of a bundle and of the files it was composed from, by name."""
    own = [layer for layer in bundle.layers if layer.owner in ("user", "fetched") and layer.named_by != "project"]
    included = list(dict.fromkeys(layer.bundle for layer in own if layer.bundle != bundle.name))
    entries: dict[str, dict[str, Any]] = {}
    for layer in own:
        is_root = layer.bundle == bundle.name
        entries[layer.bundle] = {
            "uri": layer.uri,
            "name": layer.bundle,
            "local_path": str(layer.document.path),
            "is_root": is_root,
            "explicitly_requested": is_root and explicitly_requested,
            "app_bundle": is_root and app_bundle,
            "included_by": [] if is_root else [bundle.name],
        }
        if is_root:
            entries[layer.bundle] |= {"version": bundle.version, "includes": included}
    return entries if bundle.name in entries else {}


def _update(data: dict[str, Any], entries: Mapping[str, dict[str, Any]]) -> bool:
    """Lay new entries over those of the file, whose other keys stay; return whether any of them says something new."""
    from datetime import UTC, datetime

    known = data.setdefault("bundles", {})
    data.setdefault("version", _VERSION)
    has_changed = False
    for name, entry in entries.items():
        before = known.get(name)
        before = before if isinstance(before, dict) else {}
        merged = {**before, **entry}
        for key in ("explicitly_requested", "app_bundle", "is_root"):
            merged[key] = bool(before.get(key)) or entry[key]
        merged["included_by"] = list(dict.fromkeys([*(before.get("included_by") or []), *entry["included_by"]]))
        if merged != before:
            has_changed = True
            now = datetime.now(UTC).isoformat()
            known[name] = {"version": "1.0.0", "checked_at": None, **merged, "loaded_at": now}
    return has_changed


def _encoded(data: Mapping[str, Any]) -> bytes:
    import json

    return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()
