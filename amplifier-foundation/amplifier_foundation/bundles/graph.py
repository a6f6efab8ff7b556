"""Follow the includes of a bundle: read every file once, then compose them in the order they are included."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.bundles.bundle import (
    Bundle,
    BundleCycleError,
    BundleError,
    BundleLimitError,
    BundleNotFoundError,
    IncludeError,
    Namer,
)
from amplifier_foundation.bundles.composition import compose, compose_all, namespace_clash
from amplifier_foundation.bundles.file import BundleFile, context_addresses
from amplifier_foundation.bundles.references import Reference, parse_reference
from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE, fallback_namespaces
from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_foundation.bundles.loader import BundleLoader

#: The limits of nested includes, of files in a bundle, of includes in all of them, and of values. Intended bundles
#: reach a tenth of them; more would take minutes to compose.
MAX_DEPTH: Final = 100
MAX_FILES: Final = 500
MAX_INCLUDES: Final = 2_000
MAX_VALUES: Final = 200_000
#: The form that published bundles have, and that their loader does not read.
PATH_NOTICE: Final = "'#path=' is read as '#subdirectory=': write that"
#: At most this many errors are reported; more are usually the same mistake.
_MOST_TOLD: Final = 20


class _Include:
    """One line of `includes`."""

    def __init__(self, text: str, index: int, of: _Node) -> None:
        self.text = text
        self.index = index
        self.of = of
        self.target: _Node | None = None

    @property
    def where(self) -> str:
        return self.of.file.document.where("includes", self.index)


class _Node:
    """One file, as one of the parties names it."""

    def __init__(self, file: BundleFile) -> None:
        self.file = file
        self.includes: list[_Include] = []
        self.composed: Bundle | None = None

    @property
    def place(self) -> Path:
        """Return the file's identity: its path with links followed."""
        return self.file.document.path.resolve()


class IncludeGraph:
    """The files of one bundle and its includes.

    All are read before any is composed, level by level and those of a level at once, so that files may depend on each
    other in any shape without deadlock, and the order stays the same. `namespace:path` waits until a file has
    registered the namespace; a namespace that no file registers is looked up in the registry.
    """

    def __init__(self, loader: BundleLoader, root: BundleFile) -> None:
        self._loader = loader
        self._nodes: dict[tuple[Path, Namer], _Node] = {}
        #: Roots of namespaces, and the files that registered them; the first one to claim a name gets it.
        self._namespaces: dict[str, tuple[Path, BundleFile | None]] = {
            SHIPPED_NAMESPACE[0]: (SHIPPED_NAMESPACE[1], None)
        }
        self._warnings: list[str] = []
        #: Context files that were fetched, by address.
        self._context_files: dict[str, Path] = {}
        self._faults: list[FoundationError] = []
        self._include_count = 0
        self._value_count = 0
        self._root = self._add(root)

    async def read(self) -> None:
        """Read all files; raise with everything that is wrong with the includes."""
        import asyncio

        waiting = list(self._root.includes)
        while waiting:
            ready = [include for include in waiting if self._can_be_read(include)]
            if not ready:
                await self._ask_registry(waiting)
                ready = [include for include in waiting if self._can_be_read(include)]
                known = set(map(id, ready))
                for include in waiting:
                    if id(include) not in known:
                        self._fail(include, IncludeError(f"{include.where}: {self._unknown_namespace(include)}"))
                waiting = []
            results = await asyncio.gather(*(self._read(include) for include in ready), return_exceptions=True)
            waited = set(map(id, ready))
            waiting = [include for include in waiting if id(include) not in waited]
            for include, result in zip(ready, results, strict=True):
                if isinstance(result, FoundationError):
                    self._fail(include, result)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    before = len(self._nodes)
                    include.target = self._add(result)
                    waiting += include.target.includes if len(self._nodes) > before else []
        await self._fetch_context()
        self._raise_faults()

    async def _fetch_context(self) -> None:
        """Fetch the context files that are named by address; one that cannot be fetched is left out with a warning."""
        import asyncio

        from amplifier_foundation.sources.fetched import NotLockedError, SourceError, SourceIntegrityError

        named = {
            text: node.file.document.where("context", *keys)
            for node in self._nodes.values()
            for text, keys in context_addresses(node.file.document.data.get("context"))
        }
        results = await asyncio.gather(*map(self._loader.fetch_file, named), return_exceptions=True)
        for (text, where), result in zip(named.items(), results, strict=True):
            if "#path=" in text:
                self._warnings.append(f"{where}: {PATH_NOTICE}")
            if isinstance(result, NotLockedError | SourceIntegrityError):
                self._faults.append(type(result)(f"{where}: the context file {text!r} cannot be used: {result}"))
            elif isinstance(result, SourceError):
                self._warnings.append(f"{where}: the context file {text!r} is left out: {result}")
            elif isinstance(result, BaseException):
                raise result
            else:
                self._context_files[text] = result.path
                # A root of its own, so that the file may be read; no mention can have this name.
                self._namespaces.setdefault(text.partition("#")[0], (result.root, None))

    def compose(self) -> Bundle:
        """Return the bundle with its includes: the first, each next one over it, and the including file last."""
        bundle = self._compose(self._root, [])
        self._raise_faults()
        # Agents mention files of `foundation` without including it.
        namespaces = {**fallback_namespaces(), **{name: root for name, (root, _) in self._namespaces.items()}}
        warnings = tuple(dict.fromkeys((*self._warnings, *bundle.warnings)))
        return replace(bundle, namespaces=namespaces, warnings=warnings, sources=dict(self._loader.sources))

    def _add(self, file: BundleFile) -> _Node:
        """Return the node of a file, with what it includes and the namespaces it brings."""
        key = (file.document.path.resolve(), file.named_by)
        if key not in self._nodes:
            node = self._nodes[key] = _Node(file)
            self._bring(file)
            node.includes = [
                _Include(text, index, node) for index, text in _references(file.document.data.get("includes"))
            ]
            self._include_count += len(node.includes)
            self._value_count += file.document.size
            self._check_limits(file)
        return self._nodes[key]

    def _check_limits(self, file: BundleFile) -> None:
        """Raise for a bundle that would take too long, even if missing includes are allowed."""
        for what, count, most in (
            ("files", len(self._nodes), MAX_FILES),
            ("includes", self._include_count, MAX_INCLUDES),
            ("values", self._value_count, MAX_VALUES),
        ):
            if count > most:
                where = file.document.where("includes")
                raise BundleLimitError(
                    f"{where}: the bundle leads to more than {most:,} {what}: include less, or put files together"
                )

    def _bring(self, file: BundleFile) -> None:
        for name, root in file.namespaces().items():
            first = self._namespaces.setdefault(name, (root, file))[0]
            clash = namespace_clash(name, first, root)
            if clash:
                self._warnings.append(f"{file.document.where('bundle', 'name')}: {clash}")

    def _can_be_read(self, include: _Include) -> bool:
        """Return whether it can be located: always, except for namespaces that no file has registered yet."""
        try:
            reference = parse_reference(include.text)
        except BundleError:
            return True  # reading it reports the error
        return reference.kind != "namespaced" or self._namespace(reference, include.of.file) is not None

    def _namespace(self, reference: Reference, file: BundleFile) -> tuple[Path, BundleFile | None] | None:
        """Return what a namespace means in a file: the product's, else its own name or its root's, else another's."""
        if reference.namespace == SHIPPED_NAMESPACE[0]:
            return self._namespaces[reference.namespace]
        own = file.namespaces().get(reference.namespace)
        return (own, file) if own is not None else self._namespaces.get(reference.namespace)

    async def _ask_registry(self, waiting: list[_Include]) -> None:
        """Load the files of namespaces that no include has registered, without their own includes."""
        for include in waiting:
            reference = parse_reference(include.text)
            if reference.namespace in self._namespaces:
                continue
            try:
                name = Reference("name", reference.namespace)
                file = await self._loader.read(name, include.of.file, _namer(include.of.file))
            except BundleNotFoundError:
                continue  # reported for each include of that namespace
            except FoundationError as error:
                self._faults.append(_placed(include, error))
                continue
            self._bring(file)
            self._namespaces.setdefault(reference.namespace, (file.folder, file))

    def _unknown_namespace(self, include: _Include) -> str:
        from amplifier_foundation.errors import did_you_mean

        namespace = include.text.partition(":")[0].strip()
        names = [*self._namespaces, *include.of.file.namespaces()]
        return (
            f"the include {include.text!r} needs the namespace {namespace!r}, which no included bundle has and no "
            f"known bundle is named: {did_you_mean(namespace, list(dict.fromkeys(names)))}"
        )

    async def _read(self, include: _Include) -> BundleFile:
        reference = parse_reference(include.text)
        file = include.of.file
        if "#path=" in include.text:
            self._warnings.append(f"{include.where}: {PATH_NOTICE}")
        if reference.kind != "namespaced":
            return await self._loader.read(reference, file, _namer(file))
        found = self._namespace(reference, file)
        if found is None:  # pragma: no cover - `_can_be_read` has looked
            raise BundleNotFoundError(self._unknown_namespace(include))
        root, brought_by = found
        named_by = "project" if brought_by is not None and brought_by.named_by == "project" else _namer(file)
        return self._loader.read_below(root, reference.path, brought_by, named_by)

    def _compose(self, node: _Node, chain: list[_Include]) -> Bundle:
        if node.composed is None:
            parts = [
                self._compose(include.target, [*chain, include])
                for include in node.includes
                if include.target is not None and not self._closes_a_circle(include, chain)
            ]
            known = {name: root for name, (root, _) in self._namespaces.items()}
            own = node.file.bundle(known, allow_missing=self._loader.allow_missing, fetched=self._context_files)
            node.composed = compose(compose_all(parts), own, includes_base=True) if parts else own
        return node.composed

    def _closes_a_circle(self, include: _Include, chain: list[_Include]) -> bool:
        """Return whether the include leads back to a file that is being composed, or too deep; that is an error."""
        if len(chain) >= MAX_DEPTH:
            self._fail(include, IncludeError(f"{include.where}: includes are nested more than {MAX_DEPTH} files deep"))
            return True
        assert include.target is not None
        open_includes = [*chain, include]
        places = [step.of.place for step in open_includes]
        if include.target.place not in places:
            return False
        circle = open_includes[places.index(include.target.place) :]
        steps = "\n".join(f"  {step.where} includes {step.text!r}" for step in circle)
        text = f"{include.where}: bundles include each other without end:\n{steps}\nremove one of these includes"
        if "#subdirectory=" in include.target.file.uri or "#subdirectory=" in include.text:
            # A part of a source may include its own root, which includes the part.
            self._warnings.append(f"{include.where}: {include.text!r} is being composed already, and is not repeated")
        else:
            self._fail(include, BundleCycleError(text))
        return True

    def _fail(self, include: _Include, error: FoundationError) -> None:
        """Collect an error, so that all are reported at the end; for what may be missing, add a warning."""
        from amplifier_foundation.sources.fetched import NotLockedError, SourceError, SourceIntegrityError

        is_missing = isinstance(error, BundleNotFoundError | IncludeError | BundleCycleError | SourceError)
        is_unsafe = isinstance(error, NotLockedError | SourceIntegrityError)
        placed = error if isinstance(error, IncludeError | BundleCycleError) else _placed(include, error)
        if self._loader.allow_missing and is_missing and not is_unsafe:
            self._warnings.append(f"left out: {placed}")
        else:
            self._faults.append(placed)

    def _raise_faults(self) -> None:
        """Raise the collected errors: a single one as it is, several as one error with all messages."""
        faults, self._faults = self._faults, []
        if len(faults) == 1:
            raise faults[0]
        if faults:
            kinds = {type(fault) for fault in faults}
            kind: Any = kinds.pop() if len(kinds) == 1 else IncludeError
            texts = list(dict.fromkeys(str(fault) for fault in faults))
            more = [f"and {len(texts) - _MOST_TOLD:,} more of these"] if len(texts) > _MOST_TOLD else []
            raise kind("\n".join([*texts[:_MOST_TOLD], *more]))


def _references(includes: Any) -> list[tuple[int, str]]:
    """Return the includes of a file that can be followed; the check of the file reports the others."""
    found = []
    for index, item in enumerate(includes if isinstance(includes, list) else ()):
        text = (item.get("bundle") or item.get("behavior")) if isinstance(item, dict) else item
        if isinstance(text, str) and text.strip():
            found.append((index, text.strip()))
    return found


def _namer(file: BundleFile) -> Namer:
    """Return who counts as having named the includes of a file."""
    return "project" if file.owner == "project" else file.named_by


def _placed(include: _Include, error: FoundationError) -> FoundationError:
    """Return the error with the place of the include that led to it, in a type for its kind of error."""
    from amplifier_foundation.sources.fetched import NotLockedError, SourceIntegrityError

    text = f"{include.where}: the include {include.text!r} cannot be used: {error}"
    kind = type(error)
    if issubclass(kind, NotLockedError | SourceIntegrityError):
        return kind(text)
    if issubclass(kind, BundleError) and not issubclass(kind, BundleNotFoundError):
        return kind(text)
    return IncludeError(text)
