"""One bundle file: YAML, or Markdown whose front matter is the YAML and whose body is the system instruction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.bundles.anchors import BUNDLE_FILES, anchor_sources, beside, bundle_file_in, is_inside
from amplifier_foundation.bundles.bundle import Bundle, BundleError, BundleNotFoundError, Layer, Namer, Owner
from amplifier_foundation.bundles.checks import check_bundle
from amplifier_foundation.documents import Document, read_document
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.merge import COMPOSE, merge_modules
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.struct import FrozenStruct

#: What the name of a bundle file may end with.
SUFFIXES: Final = (".md", ".yaml", ".yml")


def read_bundle_file(path: Path) -> Document:
    """Return the document of a bundle: a file, or a folder with a bundle.md or bundle.yaml.

    Raises BundleNotFoundError for a missing file, and BundleError, naming file and line, for another suffix and for
    what cannot be read or parsed.
    """
    try:
        file = find_bundle_file(path)
    except OSError as error:
        raise BundleError(f"{path}: cannot look for the bundle: {error.strerror or error}") from error
    try:
        return read_document(file)
    except DocumentError as error:
        raise BundleError(str(error)) from error


def find_bundle_file(path: Path) -> Path:
    """Return the bundle file that a path means; raises BundleNotFoundError, and BundleError for another suffix."""
    if path.is_dir():
        found = bundle_file_in(path)
        if found is None:
            raise BundleNotFoundError(f"{path}: no bundle.md or bundle.yaml in this folder")
        return found
    if not path.is_file():
        raise BundleNotFoundError(f"{path}: there is no such bundle file")
    if path.suffix.lower() not in SUFFIXES:
        raise BundleError(f"{path}: a bundle is a .md or .yaml file, not {path.suffix or 'one without a suffix'}")
    return path


def bundle_name(document: Document) -> str:
    """Return the name a bundle gives itself, else that of its file, or of the folder of a `bundle.md`."""
    described = document.data.get("bundle")
    name = described.get("name") if isinstance(described, Mapping) else None
    if name:
        return str(name)
    return document.path.parent.name if document.path.stem == "bundle" else document.path.stem


def namespace_root(document: Document) -> Path:
    """Return where `agents/` and `context/` of a bundle are: its folder, or its `namespace_root`."""
    described = document.data.get("bundle")
    given = described.get("namespace_root") if isinstance(described, Mapping) else None
    return (document.path.parent / given).resolve() if isinstance(given, str) and given else document.path.parent


class BundleFile(FrozenStruct):
    """A file that was read, whose it is, and what it belongs to."""

    document: Document
    owner: Owner
    named_by: Namer
    uri: str
    #: The folder that a search upwards does not leave, and that must contain the files it names.
    limit: Path
    #: The root bundle this one is nested under.
    root: Document | None = None
    given_by_user: bool = False

    @property
    def name(self) -> str:
        """Return the name of the bundle."""
        return bundle_name(self.document)

    @property
    def folder(self) -> Path:
        """Return the file's folder."""
        return self.document.path.parent

    @property
    def root_folder(self) -> Path:
        """Return the folder of the bundle the file belongs to: its own for a `bundle.md`, else that of its root."""
        if self.root is None or self.document.path.name in BUNDLE_FILES:
            return self.folder
        return self.root.path.parent

    def namespaces(self) -> dict[str, Path]:
        """Return the namespaces the file brings: that of the root bundle above it, then its own."""
        own = {self.name: namespace_root(self.document)}
        return {bundle_name(self.root): namespace_root(self.root), **own} if self.root is not None else own

    def bundle(
        self, namespaces: Mapping[str, Path], *, allow_missing: bool = False, fetched: Mapping[str, Path] | None = None
    ) -> Bundle:
        """Return the bundle of this file alone, without its includes, with all paths absolute.

        `namespaces` are those known beside its own; `fetched` are context files by address. Raises BundleError with
        file and line.
        """
        warnings = check_bundle(self.document, self.owner)
        document, data = self.document, self.document.data
        plan = anchor_sources(data, document, self.root_folder, on_missing=warnings.append if allow_missing else None)
        described = data.get("bundle") or {}
        own = self.namespaces()
        context, pending = self._context(data.get("context") or {}, {**namespaces, **own}, warnings, fetched or {})
        agents = _roster(plan.get("agents"))
        bundle = Bundle(
            file=document.path,
            name=self.name,
            instruction=document.body,
            version=str(described.get("version") or "1.0.0"),
            description=str(described.get("description") or ""),
            base_path=self.folder,
            uri=self.uri,
            session=plan.get("session") or {},
            spawn=plan.get("spawn") or {},
            orchestrator=plan.get("orchestrator"),
            agents=agents,
            agent_namespaces={name: self._agent_namespace(name) for name in agents if ":" not in name},
            context=context,
            pending_context=tuple(pending),
            namespaces=own,
            packages=_packages(own.values()),
            layers=(Layer(document, self.owner, self.named_by, self.name, self.uri, self.given_by_user),),
            warnings=tuple(warnings),
        )
        for section in MODULE_SECTIONS:
            setattr(bundle, section, merge_modules([], plan.get(section) or [], COMPOSE, (section,)))
        return bundle

    def _agent_namespace(self, name: str) -> str:
        """Return the namespace of an agent whose name has none: of this bundle, or of the root that has its file."""
        roots = self.namespaces()
        has_file = [space for space, root in roots.items() if (root / "agents" / f"{name}.md").is_file()]
        return self.name if self.name in has_file or not has_file else has_file[0]

    def _context(
        self,
        named: Mapping[str, Any],
        namespaces: Mapping[str, Path],
        warnings: list[str],
        fetched: Mapping[str, Path],
    ) -> tuple[dict[str, Path], list[str]]:
        """Return the context files by name, and the references whose namespace is not known."""
        context: dict[str, Path] = {}
        pending: list[str] = []
        for name, reference, keys in _context_entries(named):
            if "://" in reference:  # a warning has said why one is left out
                if reference in fetched:
                    context[name if "://" not in name else reference] = fetched[reference]
                continue
            where = self.document.where("context", *keys)
            key = name if ":" in name else f"{self.name}:{name}"
            namespace, separator, path = reference.partition(":")
            if separator and namespace not in namespaces:
                warnings.append(f"{where}: no bundle has brought the namespace {namespace!r} of {reference!r}")
                pending.append(reference)
                continue
            try:
                found = self._context_file([namespaces[namespace]] if separator else None, path or reference, where)
            except (OSError, RuntimeError, ValueError) as error:  # a link to itself, or a name that no file can have
                raise BundleError(f"{where}: the context file {reference!r} cannot be looked for: {error}") from error
            if not found.exists():
                warnings.append(f"{where}: there is no context file {found}")
            context[key] = found
        return context, pending

    def _context_file(self, roots: list[Path] | None, path: str, where: str) -> Path:
        """Return the file a context entry means; raise BundleError for one that this file may not name."""
        roots_of_mine = [namespace_root(self.document), self.folder, self.root_folder]
        candidates = [place for root in roots or roots_of_mine for place in beside(root, path)]
        found = next((place for place in candidates if place.exists()), candidates[0])
        allowed = [self.limit, *(roots or ())]
        if self.owner in ("project", "fetched") and not any(is_inside(found, folder) for folder in allowed):
            raise BundleError(f"{where}: the context file {path!r} lies outside of {self.limit}: put it in there")
        return found


def context_addresses(named: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    """Return the context files of a bundle that are named by address, and the keys that lead to each."""
    entries = _context_entries(named) if isinstance(named, Mapping) else []
    return [(reference, keys) for _, reference, keys in entries if "://" in reference]


def _context_entries(named: Mapping[str, Any]) -> list[tuple[str, str, tuple[str | int, ...]]]:
    """Return name, reference and place of each context file."""
    entries: list[tuple[str, str, tuple[str | int, ...]]] = [
        (str(path), str(path), ("include", index)) for index, path in enumerate(named.get("include") or [])
    ]
    return entries + [(str(name), str(path), (name,)) for name, path in named.items() if name != "include"]


def load_bundle_file(path: Path) -> Bundle:
    """Return the bundle in one file or folder, for files that include no other.

    Raises BundleError, naming file and line, for what is missing or malformed, unknown keys, module lists that are not
    lists, and for includes, which only a BundleLoader resolves.
    """
    document = read_bundle_file(path)
    if document.data.get("includes"):
        raise BundleError(f"{document.where('includes')}: 'includes' cannot be resolved in a file that is read alone")
    return BundleFile(document, "user", "user", str(document.path), document.path.parent).bundle({})


def _roster(agents: Any) -> dict[str, dict[str, Any]]:
    """Return agents by the name callers use; those that are only named have an empty definition."""
    if not isinstance(agents, Mapping):
        return {}
    roster: dict[str, dict[str, Any]] = {str(name): {} for name in agents.get("include") or ()}
    return roster | {str(name): dict(agent or {}) for name, agent in agents.items() if name != "include"}


def _packages(roots: Any) -> tuple[Path, ...]:
    """Return the roots that are Python packages of their own."""
    return tuple(root for root in dict.fromkeys(roots) if _is_package(root / "pyproject.toml"))


def _is_package(file: Path) -> bool:
    if not file.is_file():
        return False
    import tomllib

    try:
        data = tomllib.loads(read_regular(file).decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise BundleError(f"{file}: cannot be read as TOML: {error}") from error
    return "project" in data or "build-system" in data
