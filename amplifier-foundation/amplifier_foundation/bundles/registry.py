"""Know bundles by name: those of the project, then the user, the settings, the registry file and the product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_foundation.bundles.bundle import Namer
from amplifier_foundation.paths import Home
from amplifier_kit.struct import FrozenStruct

_PATTERNS: Final = ("{}/bundle.md", "{}/bundle.yaml", "{}.yaml", "{}.md")

Origin = Literal["project", "user", "settings", "registry", "product", "published"]

_PUBLISHER: Final = "git+https://github.com/microsoft/amplifier-"
#: Published bundles with well-known names that do not come with the product; fetched when they are used.
_WELL_KNOWN: Final = {
    "anchors-amp-dev": f"{_PUBLISHER}foundation@main#subdirectory=bundles/anchors-amp-dev/bundle.md",
    "amplifier-dev": f"{_PUBLISHER}foundation@main#subdirectory=bundles/amplifier-dev.yaml",
    "exp-delegation": f"{_PUBLISHER}foundation@main#subdirectory=experiments/delegation-only",
    **{
        name: f"{_PUBLISHER}bundle-{name}@main"
        for name in ("recipes", "design-intelligence", "notify", "modes", "routing-matrix")
    },
}


class KnownBundle(FrozenStruct):
    """A bundle's name and where the bundle is."""

    name: str
    #: A path or an address.
    reference: str
    origin: Origin
    #: Who registered the name.
    named_by: Namer


class BundleRegistry:
    """Look up names of bundles. Nothing is fetched, and nothing is written."""

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
        self._recorded: Mapping[str, Any] | None = None
        #: What could not be read.
        self.warnings: list[str] = []

    def find(self, name: str) -> KnownBundle | None:
        """Return the bundle of a name, None when it is unknown; `name/sub/path` is looked for below the folders."""
        for folder, origin in self._folders():
            for pattern in _PATTERNS:
                path = folder / pattern.format(name)
                if path.is_file():
                    return KnownBundle(name, str(path), origin, "project" if origin == "project" else "user")
        return next((known for known in self._by_name() if known.name == name), None)

    def list(self) -> list[KnownBundle]:
        """Return every known name with what `find` would return for it, sorted; published bundles are left out."""
        known: dict[str, KnownBundle] = {}
        for folder, origin in self._folders():
            for name in _names_in(folder):
                found = self.find(name)
                if found is not None and found.origin == origin:
                    known.setdefault(name, found)
        for bundle in self._by_name():
            if bundle.origin != "published":
                known.setdefault(bundle.name, bundle)
        return [known[name] for name in sorted(known)]

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
        for name, entry in self._entries().items():
            if isinstance(entry, Mapping) and isinstance(entry.get("uri"), str) and entry["uri"]:
                yield KnownBundle(name, entry["uri"], "registry", "user")
        for name, path in self._shipped.items():
            yield KnownBundle(name, str(path), "product", "product")
        for name, reference in _WELL_KNOWN.items():
            yield KnownBundle(name, reference, "published", "product")

    def _entries(self) -> Mapping[str, Any]:
        """Return the bundles of the registry file; one that cannot be read or understood is reported once."""
        if self._recorded is not None:
            return self._recorded
        import json

        path = self._home.registry
        self._recorded = {}
        try:
            data = json.loads(path.read_bytes().decode("utf-8-sig"))
            if not isinstance(data, dict) or not isinstance(data.get("bundles", {}), dict):
                raise ValueError("it does not hold a mapping of `bundles`")
            self._recorded = data.get("bundles", {})
        except FileNotFoundError:
            pass  # nothing was registered yet
        except (OSError, ValueError, RecursionError) as error:
            self.warnings.append(f"{path}: the registry of bundles is ignored, it cannot be read: {error}")
        return self._recorded


def _names_in(folder: Path) -> list[str]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return []  # most projects and homes have none
    names = {entry.stem if entry.suffix in (".yaml", ".md") else entry.name for entry in entries}
    return sorted(name for name in names if not name.startswith("."))
