"""Load bundles, and know bundles by name, by the names that published apps import.

registry = BundleRegistry()
registry.register({"tools": "git+https://example.com/org/tools@main"})
bundle = await registry.load("tools")
registry.save()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.bundle import Bundle
from amplifier_foundation.exceptions import BundleLoadError, BundleNotFoundError
from amplifier_foundation.files import replace_file
from amplifier_foundation.paths import Home

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Bundle as ComposedBundle

__all__ = ["BundleRegistry", "BundleState", "UpdateInfo", "load_bundle"]

#: Returns the reference to load in place of an included one, None to keep it.
IncludeSourceResolver = Callable[[str], str | None]


@dataclass
class BundleState:
    """What is recorded of a known bundle."""

    uri: str
    name: str
    version: str | None = None
    loaded_at: datetime | None = None
    checked_at: datetime | None = None
    local_path: str | None = None
    #: Names of the bundles it includes, and of those that include it.
    includes: list[str] = field(default_factory=list)
    included_by: list[str] = field(default_factory=list)
    #: False for a part of another bundle, whose name is `root_name`.
    is_root: bool = True
    root_name: str | None = None
    #: Whether it was asked for, not only included.
    explicitly_requested: bool = False
    app_bundle: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without what is unset."""
        values = {**asdict(self), "loaded_at": _text(self.loaded_at), "checked_at": _text(self.checked_at)}
        optional = ("includes", "included_by", "root_name")
        return {key: value for key, value in values.items() if key not in optional or value}

    @classmethod
    def from_dict(cls, name: str, data: Mapping[str, Any]) -> BundleState:
        """Read what `to_dict` returns; unknown keys are ignored, times that cannot be read are unset."""
        known = {one.name for one in fields(cls)} - {"name"}
        values = {key: value for key, value in data.items() if key in known}
        for key in ("loaded_at", "checked_at"):
            values[key] = _time(values.get(key))
        return cls(name=name, **{"uri": "", **values})


@dataclass
class UpdateInfo:
    """A newer state of a bundle."""

    name: str
    current_version: str | None
    available_version: str | None
    uri: str


async def load_bundle(
    source: str | Path, *, auto_include: bool = True, registry: BundleRegistry | None = None, strict: bool = False
) -> Bundle:
    """Return the bundle that an address, a path or a name means, with everything it includes.

    With `auto_include=False` the file is read alone. A missing include is left out with a warning, unless `strict`.
    Raises BundleNotFoundError, BundleLoadError and BundleError, which name file and line; ValueError for `strict`
    together with a registry, which has a strictness of its own.
    """
    if registry is not None:
        if strict:
            raise ValueError("strict cannot be given together with a registry: create BundleRegistry(strict=True)")
        return await registry._load(str(source), auto_include=auto_include)
    return await BundleRegistry(strict=strict)._load(str(source), auto_include=auto_include)


class BundleRegistry:
    """Know bundles by name and load them; `save` keeps the names for later, in `registry.json` of the home.

    When `strict`, an include that cannot be loaded is an error instead of a warning.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        strict: bool = False,
        include_source_resolver: IncludeSourceResolver | None = None,
    ) -> None:
        """Read the registry of a home, else of the user's; a file that cannot be read counts as empty."""
        self.home = Path(home) if home is not None else Home.find().path
        self._strict = strict
        self._override = include_source_resolver
        self._states: dict[str, BundleState] = {}
        data: Any = None
        with suppress(OSError, ValueError):
            data = json.loads(Home(self.home).registry.read_bytes().decode("utf-8-sig"))
        known = data.get("bundles") if isinstance(data, dict) else None
        for name, state in known.items() if isinstance(known, dict) else ():
            if isinstance(state, dict):
                self._states[name] = BundleState.from_dict(name, state)
        for one in self._states.values():
            if one.local_path is not None and not Path(one.local_path).exists():
                one.local_path = None

    # -- names --

    def register(self, bundles: Mapping[str, str]) -> None:
        """Let names mean these addresses or paths."""
        for name, uri in bundles.items():
            known = self._states.get(name)
            if known is None:
                self._states[name] = BundleState(uri, name)
            else:
                known.uri = uri

    def find(self, name: str) -> str | None:
        """Return the address that a registered name means, None for an unknown one."""
        state = self._states.get(name)
        return state.uri if state is not None else None

    def list_registered(self) -> list[str]:
        """Return the registered names, sorted."""
        return sorted(self._states)

    def unregister(self, name: str) -> bool:
        """Forget a name; return whether it was registered."""
        removed = self._states.pop(name, None)
        for state in self._states.values():
            state.includes = [one for one in state.includes if one != name]
            state.included_by = [one for one in state.included_by if one != name]
        return removed is not None

    def get_state(self, name: str | None = None) -> BundleState | dict[str, BundleState] | None:
        """Return what is recorded of a bundle, None for an unknown one; without a name, all of it by name."""
        return dict(self._states) if name is None else self._states.get(name)

    def set_include_source_resolver(self, resolver: IncludeSourceResolver | None) -> None:
        """Set what may replace the references in `includes`; None for nothing."""
        self._override = resolver

    def save(self) -> None:
        """Write `registry.json`; raises OSError."""
        content = {"version": 1, "bundles": {name: state.to_dict() for name, state in self._states.items()}}
        self.home.mkdir(parents=True, exist_ok=True)
        replace_file(Home(self.home).registry, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")

    # -- bundles --

    async def load(self, name_or_uri: str | None = None, *, auto_register: bool = True) -> Bundle | dict[str, Bundle]:
        """Return a bundle by name, path or address; without one, every registered bundle by name.

        With `auto_register` a bundle that was not registered is, by its own name. Raises as `load_bundle`.
        """
        if name_or_uri is None:
            return {name: await self._load(name) for name in self.list_registered()}
        return await self._load(name_or_uri, auto_register=auto_register)

    async def check_update(self, name: str | None = None) -> UpdateInfo | list[UpdateInfo] | None:
        """Return what is newer than the copy of a bundle, None if nothing is; without a name, all that is newer.

        The network is asked for git sources that are not pinned. Raises KeyError for an unknown name.
        """
        if name is None:
            found = [await self._check(one) for one in self.list_registered()]
            return [info for info in found if info is not None]
        return await self._check(name)

    async def update(self, name: str | None = None) -> Bundle | dict[str, Bundle]:
        """Fetch a bundle and what it includes again and return it; without a name, every registered one.

        Raises KeyError for an unknown name, and as `load_bundle`.
        """
        if name is None:
            return {one: await self._load(one, refresh=True) for one in self.list_registered()}
        self._known(name)
        return await self._load(name, refresh=True)

    def _known(self, name: str) -> BundleState:
        if name not in self._states:
            raise KeyError(f"Bundle '{name}' not registered")
        return self._states[name]

    async def _check(self, name: str) -> UpdateInfo | None:
        from amplifier_foundation.sources.status import source_status

        state = self._known(name)
        status = await source_status(state.uri, Home(self.home).cache)
        state.checked_at = datetime.now(UTC)
        if not status.has_update:
            return None
        return UpdateInfo(name, status.cached_commit or state.version, status.remote_commit, state.uri)

    async def _load(
        self, reference: str, *, auto_include: bool = True, auto_register: bool = True, refresh: bool = False
    ) -> Bundle:
        from amplifier_foundation.bundles.loader import BundleLoader
        from amplifier_foundation.bundles.registry import BundleRegistry as KnownBundles
        from amplifier_foundation.bundles.shipped import shipped_bundles
        from amplifier_foundation.errors import DocumentError
        from amplifier_foundation.sources.fetcher import Fetcher

        home = Home(self.home)
        added = {name: state.uri for name, state in self._states.items() if state.uri}
        loader = BundleLoader(
            Fetcher(home, refresh=refresh),
            KnownBundles(home, None, added, shipped_bundles()),
            home,
            None,
            allow_missing=not self._strict,
            override_include=self._override,
        )
        _check_path(reference)
        try:
            composed = await loader.load(reference, given_by_user=True, follow_includes=auto_include)
        except BundleNotFoundError as error:
            if "://" in reference or reference in self._states:
                raise
            raise BundleNotFoundError(f"No handler for URI: {reference} ({error})") from error
        except DocumentError as error:
            raise BundleLoadError(str(error)) from error
        bundle = Bundle._of(composed)
        self._record(reference, composed, auto_register=auto_register)
        for warning in composed.warnings:
            import logging

            logging.getLogger(__name__).warning("%s", warning)
        return bundle

    def _record(self, reference: str, composed: ComposedBundle, *, auto_register: bool) -> None:
        """Record that a bundle was loaded, and what it includes."""
        asked = reference if reference in self._states else composed.name
        if asked not in self._states:
            if not auto_register or not asked:
                return
            self.register({asked: composed.uri or reference})
        state = self._states[asked]
        state.version, state.loaded_at = composed.version, datetime.now(UTC)
        state.explicitly_requested = True
        state.local_path = str(composed.base_path) if composed.file is not None else None
        included = dict.fromkeys(layer.bundle for layer in composed.layers if layer.bundle != composed.name)
        state.includes = list(included)
        for layer in composed.layers:
            if layer.bundle == composed.name or not layer.bundle:
                continue
            child = self._states.setdefault(layer.bundle, BundleState(layer.uri, layer.bundle))
            child.loaded_at = state.loaded_at
            child.local_path = str(layer.document.path.parent)
            if asked not in child.included_by:
                child.included_by.append(asked)


def _check_path(reference: str) -> None:
    """Raise, in the words that published apps show, for a path that is no bundle."""
    from amplifier_foundation.bundles.anchors import bundle_file_in
    from amplifier_foundation.bundles.file import SUFFIXES
    from amplifier_foundation.bundles.references import existing_file
    from amplifier_foundation.paths import expanded

    if not reference.startswith(("/", "./", "../", "~/")):
        return
    path = expanded(reference)
    if path.is_dir() and bundle_file_in(path) is None:
        raise BundleLoadError(f"Not a valid bundle: missing bundle.md or bundle.yaml in {path}")
    if path.is_file() and path.suffix.lower() not in SUFFIXES:
        raise BundleLoadError(f"Unknown bundle format: {path}")
    if not path.exists() and existing_file(path.absolute()) is None:
        raise BundleNotFoundError(f"File not found: {path}")


def _text(time: datetime | None) -> str | None:
    return time.isoformat() if time is not None else None


def _time(text: Any) -> datetime | None:
    if isinstance(text, str):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    return None
