"""Load a bundle with everything it includes, and record for every file who owns and who named it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.bundles.anchors import is_inside, root_above
from amplifier_foundation.bundles.bundle import Bundle, BundleError, BundleNotFoundError, Namer, Owner
from amplifier_foundation.bundles.file import SUFFIXES, BundleFile, find_bundle_file, read_bundle_file
from amplifier_foundation.bundles.graph import IncludeGraph
from amplifier_foundation.bundles.references import Reference, existing_file, overridden, parse_reference, tried_files
from amplifier_foundation.bundles.registry import BundleRegistry
from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE, owner_of
from amplifier_foundation.documents import Document
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.paths import Home, expanded

if TYPE_CHECKING:
    from amplifier_foundation.sources.fetched import Fetched
    from amplifier_foundation.sources.fetcher import Fetcher


class BundleLoader:
    """Load bundles for one project. Files are parsed once per loader; make another one to see later changes."""

    def __init__(
        self,
        fetcher: Fetcher,
        registry: BundleRegistry,
        home: Home,
        project: Path | None,
        *,
        overrides: Mapping[str, str] | None = None,
        overridden_by: Mapping[str, Namer] | None = None,
        allow_missing: bool = False,
        override_include: Callable[[str], str | None] | None = None,
    ) -> None:
        """Take `overrides` of names and whole addresses; `overridden_by` says who set each, if not the user.

        `override_include` is an app's own: it returns the reference to use in place of an included one, or None.
        """
        self._fetcher = fetcher
        self._registry = registry
        self._home = home
        self._project = project
        self._overrides = dict(overrides or {})
        self._overridden_by = dict(overridden_by or {})
        self._override_include = override_include
        self.allow_missing = allow_missing
        self._documents: dict[Path, Document] = {}
        #: Everything that was fetched for bundles, by address.
        self.sources: dict[str, Fetched] = {}

    async def load(
        self, reference: str, *, named_by: Namer = "user", given_by_user: bool = False, follow_includes: bool = True
    ) -> Bundle:
        """Return the bundle that `reference` means, composed with all its includes unless these are not to be followed.

        A relative path starts at the project. Raises BundleNotFoundError, BundleCycleError, IncludeError and
        BundleError, which name file and line, and SourceError for a source that cannot be fetched. With
        `allow_missing`, includes that are missing or go in circles are warnings.
        """
        asked = _top_reference(reference)
        if asked.kind == "namespaced":
            root = await self._read_namespaced(asked, named_by)
        else:
            root = await self.read(asked, None, named_by, given_by_user=given_by_user)
        if not follow_includes:
            return root.bundle({}, allow_missing=self.allow_missing)
        graph = IncludeGraph(self, root)
        await graph.read()
        return graph.compose()

    async def read(
        self, reference: Reference, parent: BundleFile | None, named_by: Namer, *, given_by_user: bool = False
    ) -> BundleFile:
        """Return the one file that a path, an address or a name means, for the file that has the reference.

        A name that the project defines does not count as a file given by the user.
        """
        asked_by = named_by
        if parent is not None and self._override_include is not None and reference.kind != "namespaced":
            chosen = self._override_include(reference.text)
            reference = parse_reference(chosen) if chosen else reference
        text = overridden(reference.text, self._overrides) if reference.kind in ("uri", "name") else None
        if text is not None:
            named_by = _weaker(named_by, self._overrider(reference.text))
            reference = parse_reference(text)
        if reference.kind == "name":
            known = self._registry.find(reference.text)
            if known is None:
                raise BundleNotFoundError(self._unknown(reference.text))
            named_by = _weaker(named_by, known.named_by)
            text = overridden(known.reference, self._overrides)
            if text is not None:
                named_by = _weaker(named_by, self._overrider(known.reference))
            reference = parse_reference(text or known.reference)
        given_by_user = given_by_user and named_by == asked_by
        if reference.kind == "path":
            return self._read_path(reference.text, parent, named_by, given_by_user)
        if reference.kind == "uri":
            return await self._read_uri(reference.text, named_by, given_by_user)
        raise BundleNotFoundError(f"{reference.text!r} cannot stand for a bundle here: give a path or an address")

    async def _read_namespaced(self, reference: Reference, named_by: Namer) -> BundleFile:
        """Return a file below a namespace that no file has registered: the product's, or that of a known bundle."""
        if reference.namespace == SHIPPED_NAMESPACE[0]:
            return self.read_below(SHIPPED_NAMESPACE[1], reference.path, None, named_by)
        known = await self.read(Reference("name", reference.namespace), None, named_by)
        root = known.namespaces().get(reference.namespace, known.folder)
        return self.read_below(root, reference.path, known, known.named_by)

    def read_below(self, root: Path, path: str, brought_by: BundleFile | None, named_by: Namer) -> BundleFile:
        """Return the file that `path` means below the root of a namespace; raises BundleNotFoundError."""
        place = root / path
        found = existing_file(place)
        if found is None:
            raise BundleNotFoundError(f"no bundle at {place}: tried {tried_files(place)}")
        limit = brought_by.limit if brought_by is not None else root
        if not is_inside(found, limit):
            raise BundleError(f"{found} lies outside of {limit}")
        return self._file(found, self._uri_below(found, brought_by), brought_by, named_by)

    def _read_path(self, text: str, parent: BundleFile | None, named_by: Namer, given_by_user: bool) -> BundleFile:
        if text.startswith("~/"):
            place = expanded(text)
        else:
            place = (parent.folder if parent is not None else self._project or Path.cwd()) / text
        found = existing_file(place)
        if found is None:
            # The error for a folder without a bundle, or for a file that is not one, says more than that it is missing.
            found = find_bundle_file(place) if os.path.exists(place) else None
        if found is None:
            raise BundleNotFoundError(f"no bundle at {place}: tried {tried_files(place)}")
        if ".." in found.parts:
            found = found.resolve()
        if parent is not None and parent.owner == "fetched" and not text.startswith(("/", "~/")):
            if not is_inside(found, parent.limit):
                raise BundleError(f"{found} lies outside of {parent.limit}, the source that names it")
            return self._file(found, self._uri_below(found, parent), parent, named_by)
        return self._file(found, str(found), None, named_by, given_by_user=given_by_user)

    async def _read_uri(self, uri: str, named_by: Namer, given_by_user: bool) -> BundleFile:
        fetched = await self._fetcher.fetch(uri)
        found = find_bundle_file(fetched.path)
        if fetched.is_local and fetched.kind == "file":
            limit = fetched.root if fetched.root.is_dir() and fetched.root != found.parent else None
            return self._file(found, uri, None, named_by, limit=limit, given_by_user=given_by_user)
        if not fetched.is_local:
            self.sources[uri] = fetched
        limit = fetched.root if fetched.root.is_dir() else fetched.root.parent
        return self._file(found, uri, None, named_by, owner="fetched", limit=limit, given_by_user=given_by_user)

    async def fetch_file(self, uri: str) -> Fetched:
        """Return a file that is named by address; raises SourceError."""
        fetched = await self._fetcher.fetch(uri)
        if not fetched.is_local:
            self.sources[uri] = fetched
        return fetched

    def _file(
        self,
        path: Path,
        uri: str,
        of: BundleFile | None,
        named_by: Namer,
        *,
        owner: Owner | None = None,
        limit: Path | None = None,
        given_by_user: bool = False,
    ) -> BundleFile:
        """Return the file at `path`; `of` is the one whose source it is a part of."""
        if of is not None and of.owner == "fetched":
            owner, limit = "fetched", of.limit
        owner = owner or owner_of(path, self._project, self._home)
        limit = limit or self._limit(path, owner)
        above = root_above(path, limit)
        root = self._document(above) if above is not None else None
        return BundleFile(self._document(path), owner, named_by, uri, limit, root, given_by_user)

    def _document(self, path: Path) -> Document:
        if path not in self._documents:
            self._documents[path] = read_bundle_file(path)
        return self._documents[path]

    def is_projects(self, path: Path) -> bool:
        """Return whether a file is the project's own."""
        return owner_of(path, self._project, self._home) == "project"

    def _overrider(self, text: str) -> Namer:
        """Return who set the override of a name or an address."""
        key = text if text in self._overrides else text.partition("#")[0]
        return self._overridden_by.get(key, "user")

    def _limit(self, path: Path, owner: Owner) -> Path:
        """Return the folder to stay in when looking upwards from a local file for the root of its bundle."""
        if owner == "product":
            return SHIPPED_NAMESPACE[1]
        if owner == "project" and self._project is not None:
            return self._project
        if is_inside(path, self._home.path):
            return self._home.bundles if is_inside(path, self._home.bundles) else path.parent
        repository = next((folder for folder in path.parents if (folder / ".git").exists()), None)
        return repository or path.parent.parent

    def _uri_below(self, path: Path, of: BundleFile | None) -> str:
        """Return the address of a file of a fetched source, the path of any other."""
        if of is None or of.owner != "fetched" or "://" not in of.uri:
            return str(path)
        within = path.resolve().relative_to(of.limit.resolve()).as_posix()
        return f"{of.uri.partition('#')[0]}#subdirectory={within}"

    def _unknown(self, name: str) -> str:
        names = [known.name for known in self._registry.list()]
        hint = did_you_mean(name, names) if names else "none is known"
        place = (self._project or Path.cwd()) / name
        if existing_file(place) is not None:
            hint = f"for the file write ./{name}; {hint}"
        return f"there is no bundle named {name!r}: {hint}"


def _top_reference(text: str) -> Reference:
    """Return what a reference outside of any file means: there a file name with its suffix is a path."""
    text = text.strip()
    if text.lower().endswith(SUFFIXES) and "://" not in text and not text.startswith(("./", "../", "/", "~/")):
        namespace = text.partition(":")[0]
        if namespace == text or "/" in namespace or " " in namespace:  # else it is namespace:path
            return Reference("path", f"./{text}")
    return parse_reference(text)


def _weaker(one: Namer, other: Namer) -> Namer:
    """Return the less trusted of two namers: the project is trusted least, the product most."""
    order: tuple[Namer, ...] = ("project", "user", "product")
    return min(one, other, key=order.index)


def is_path(reference: str) -> bool:
    """Return whether a reference outside of any file means a file or folder by its path."""
    return _top_reference(reference).kind == "path"


def locate(
    reference: str, registry: BundleRegistry, project: Path, overrides: Mapping[str, str] | None = None
) -> tuple[Path | None, str]:
    """Return the file that a reference means, when it is on this machine, and its address; nothing is read or fetched.

    For what cannot be located without reading bundles, the file is None and the address is the reference itself.
    """
    parsed = _top_reference(overridden(reference, overrides or {}) or reference)
    if parsed.kind == "name":
        known = registry.find(parsed.text)
        if known is None:
            return None, reference
        parsed = parse_reference(overridden(known.reference, overrides or {}) or known.reference)
    if parsed.kind == "uri" and parsed.text.startswith("file://"):
        return _local_file(parsed.text), parsed.text
    if parsed.kind != "path":
        return None, parsed.text
    text = parsed.text
    found = existing_file(expanded(text) if text.startswith("~/") else project / text)
    if found is not None and ".." in found.parts:
        found = found.resolve()
    return found, str(found) if found is not None else reference


def _local_file(uri: str) -> Path | None:
    from amplifier_foundation.sources.fetched import SourceError
    from amplifier_foundation.sources.local import find_file
    from amplifier_foundation.sources.uri import parse_source

    try:
        return find_bundle_file(find_file(parse_source(uri), base=None, environ={}).path)
    except (SourceError, BundleError):
        return None  # loading it reports the error
