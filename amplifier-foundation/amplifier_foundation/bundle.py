"""Bundles as objects, by the names that published apps import: made inline or loaded, composed, prepared, run.

    bundle = Bundle(name="helper", session=..., providers=[...]).compose(await load_bundle("./tools.yaml"))
    prepared = await bundle.prepare()
    async with await prepared.create_session(approval_system=...) as session:
        answer = await session.execute("Hello")

A thin face: `bundles/` reads and composes files, `plan/` fetches and installs, `sessions/` runs. What an app names in
its own code is the app's word, like what a user types; see docs/contracts/compatibility.md for who is asked for what.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.bundles.bundle import Bundle as ComposedBundle
from amplifier_foundation.exceptions import BundleValidationError
from amplifier_foundation.merge import copied
from amplifier_foundation.prepared_bundle import BundleModuleResolver as BundleModuleResolver
from amplifier_foundation.prepared_bundle import BundleModuleSource as BundleModuleSource
from amplifier_foundation.prepared_bundle import PreparedBundle as PreparedBundle
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer

__all__ = ["Bundle", "BundleModuleResolver", "BundleModuleSource", "Origin", "PreparedBundle"]

#: Returns the source to use instead of the one that a module names.
ModuleSourceResolver = Callable[[str, str], str | Awaitable[str]]
#: Called with what is being done, and for which module or source.
ProgressCallback = Callable[[str, str], object]

_FORM: Final = "Correct format: {0}: [{{module: 'module-id', source: 'git+https://...'}}]"
#: The mappings of a bundle whose keys have an origin.
_NAMED: Final = ("agents", "context")


class Origin(NamedTuple):
    """Who brought a part of a bundle: the bundle, and the included one it came through."""

    bundle: str
    via_behavior: str | None = None


@dataclass
class Bundle:
    """The parts of a session: its modules, agents, context files and instruction.

    `context` and `source_base_paths` hold absolute paths, the latter the root folder of each namespace. `includes` are
    followed by `load_bundle`; an inline bundle takes others in by `compose`.
    """

    name: str
    version: str = "1.0.0"
    description: str = ""
    includes: list[Any] = field(default_factory=list)
    #: The folder of `agents/` and `context/`, relative to `base_path`; None for `base_path` itself.
    namespace_root: str | None = None
    session: dict[str, Any] = field(default_factory=dict)
    providers: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)
    spawn: dict[str, Any] = field(default_factory=dict)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    context: dict[str, Path] = field(default_factory=dict)
    instruction: str | None = None
    base_path: Path | None = None
    source_base_paths: dict[str, Path] = field(default_factory=dict)
    #: Context whose namespace is not known yet, by name.
    _pending_context: dict[str, str] = field(default_factory=dict)
    #: Who brought each part, by `section:key`, as `tools:tool-bash`.
    origins: dict[str, list[Origin]] = field(default_factory=dict)
    #: What a loaded bundle was read from.
    _loaded: ComposedBundle | None = field(default=None, repr=False, compare=False)

    # -- making --

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], base_path: Path | None = None) -> Bundle:
        """Return the bundle that a mapping in the form of a bundle file describes; unknown keys are ignored.

        Relative paths of modules and context start at `base_path`, else at the current folder. Raises
        BundleValidationError for a list of modules that is malformed.
        """
        from amplifier_foundation.bundles.anchors import anchor_sources

        described = data.get("bundle") or {}
        name = str(described.get("name") or "")
        for section in MODULE_SECTIONS:
            _check_modules(name, section, data.get(section))
        folder = Path(base_path) if base_path is not None else Path.cwd()
        plan = anchor_sources(data, folder / "bundle.yaml", folder, on_missing=lambda fault: None)
        bundle = cls(
            name,
            str(described.get("version") or "1.0.0"),
            str(described.get("description") or ""),
            list(data.get("includes") or []),
            described.get("namespace_root"),
            session=plan.get("session") or {},
            spawn=plan.get("spawn") or {},
            agents=_roster(plan.get("agents")),
            instruction=data.get("instruction"),
            base_path=Path(base_path) if base_path is not None else None,
        )
        for section in MODULE_SECTIONS:
            setattr(bundle, section, plan.get(section) or [])
        _add_context(bundle, data.get("context"), folder)
        return bundle

    @classmethod
    def _of(cls, composed: ComposedBundle) -> Bundle:
        """Return a bundle that was read from files."""
        document = composed.layers[-1].document.data if composed.layers else {}
        described = document.get("bundle") or {}
        bundle = cls(
            composed.name,
            composed.version,
            composed.description,
            list(document.get("includes") or []),
            described.get("namespace_root"),
            copied(composed.session),
            copied(composed.providers),
            copied(composed.tools),
            copied(composed.hooks),
            copied(composed.spawn),
            copied(composed.agents),
            dict(composed.context),
            composed.instruction or None,
            composed.base_path,
            dict(composed.namespaces),
            {reference: reference for reference in composed.pending_context},
            _loaded=composed,
        )
        bundle.origins = _origins_of_layers(bundle, composed.layers) if composed.layers else _own_origins(bundle)
        return bundle

    # -- composing --

    def compose(self, *others: Bundle) -> Bundle:
        """Return this bundle with others laid over it, the last one on top; none of them is changed."""
        from amplifier_foundation.bundles.composition import compose_all

        parts = (self, *others)
        composed = Bundle._of(compose_all([one._composed() for one in parts]))
        composed.includes = [include for one in parts for include in one.includes]
        composed.namespace_root = parts[-1].namespace_root
        composed.base_path = parts[-1].base_path or self.base_path
        composed.origins = {}
        for one in parts:
            for key, found in (one.origins or _own_origins(one)).items():
                known = composed.origins.setdefault(key, [])
                known += [origin for origin in found if origin not in known]
        return composed

    def _composed(self) -> ComposedBundle:
        """Return the same for the rooms that work with bundles."""
        roots = dict(self.source_base_paths)
        if self.base_path is not None and self.name:
            roots.setdefault(self.name, self._root())
        before = self._loaded or ComposedBundle()
        return replaced(
            before,
            name=self.name,
            version=self.version,
            description=self.description,
            instruction=self.instruction or "",
            base_path=self.base_path or Path.cwd(),
            session=copied(self.session),
            providers=copied(self.providers),
            tools=copied(self.tools),
            hooks=copied(self.hooks),
            spawn=copied(self.spawn),
            agents=copied(self.agents),
            agent_namespaces={name: self.name for name in self.agents if ":" not in name} | before.agent_namespaces,
            context={self._full_name(name): Path(path) for name, path in self.context.items()},
            pending_context=tuple(self._pending_context.values()),
            namespaces=roots,
        )

    def _root(self) -> Path:
        folder = self.base_path or Path.cwd()
        return (folder / self.namespace_root).resolve() if self.namespace_root else folder

    def _full_name(self, name: str) -> str:
        return name if ":" in name or not self.name else f"{self.name}:{name}"

    # -- running --

    def to_mount_plan(self) -> dict[str, Any]:
        """Return what the kernel mounts, a copy: session, providers, tools, hooks, agents and spawn, if not empty."""
        return self._composed().mount_plan()

    async def prepare(
        self,
        install_deps: bool = True,
        source_resolver: ModuleSourceResolver | None = None,
        progress_callback: ProgressCallback | None = None,
        strict: bool = False,
    ) -> PreparedBundle:
        """Fetch the modules that have a source, install what they need, and return what sessions are created from.

        Without `install_deps` nothing is installed. `source_resolver(module_id, source)` may replace the source of a
        module. A module that cannot be used is logged and left out; when `strict`, ModuleActivationError names all of
        them.
        """
        from amplifier_foundation.prepared_bundle import prepare_bundle

        return await prepare_bundle(
            self,
            install=install_deps,
            source_resolver=source_resolver,
            progress_callback=progress_callback,
            strict=strict,
        )

    # -- looking up --

    def get_system_instruction(self) -> str | None:
        """Return the instruction, None without one."""
        return self.instruction

    def resolve_context_path(self, name: str) -> Path | None:
        """Return the file of a context entry, or below `context/` of a namespace; None if there is none."""
        known = self.context.get(name) or self.context.get(self._full_name(name))
        if known is not None:
            return Path(known)
        return next((path for path in self._beside(name, "context") if path.exists()), None)

    def resolve_agent_path(self, name: str) -> Path | None:
        """Return the file of an agent, `name` or `namespace:name`; None if there is none."""
        return next((path for path in self._beside(name, "agents") if path.is_file()), None)

    def _beside(self, name: str, kind: str) -> list[Path]:
        """Return where a file of a namespace, else of this bundle, may be."""
        namespace, colon, path = name.partition(":")
        if colon:
            roots = [self.source_base_paths.get(namespace), self._root() if namespace == self.name else None]
        else:
            path, roots = name, [self._root() if self.base_path is not None else None]
        if path.startswith("/") or ".." in path.split("/"):
            return []
        return [
            root / folder / f"{path}{ending}"
            for root in roots
            if root is not None
            for folder in (kind, ".")
            for ending in (".md", "")
        ]

    def resolve_pending_context(self) -> None:
        """Turn context whose namespace has become known into files."""
        for name, reference in list(self._pending_context.items()):
            namespace, _, path = reference.partition(":")
            root = self.source_base_paths.get(namespace)
            if root is not None:
                self.context[name] = root / path
                del self._pending_context[name]

    def load_agent_metadata(self) -> None:
        """Read the files of the agents; what an inline definition says counts more than the file of that agent."""
        from amplifier_foundation.bundles.agents import resolve_agents
        from amplifier_foundation.paths import Home

        composed = self._composed()
        warnings: list[str] = []
        self.agents = resolve_agents(
            composed.agents,
            composed.namespaces,
            self.name,
            self._root(),
            Home.find(),
            warnings=warnings,
            agent_namespaces=composed.agent_namespaces,
            layers=composed.layers,
            allow_missing=True,
            keep_faulty=True,
        )
        _log(warnings)

    def validate_modes(self) -> list[str]:
        """Return a warning for each mistake in the mode files of the bundle, `modes/*.md`."""
        from amplifier_foundation.bundles.modes import check_mode_files

        return check_mode_files(self._root() / "modes") if self.base_path is not None else []


def _check_modules(bundle: str, section: str, entries: Any) -> None:
    if entries is None:
        return
    form = _FORM.format(section)
    if not isinstance(entries, list):
        got = type(entries).__name__
        raise BundleValidationError(f"Bundle '{bundle}' has malformed {section}: expected list, got {got}.\n{form}")
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise BundleValidationError(
                f"Bundle '{bundle}' has malformed {section}[{index}]: expected dict with 'module' and 'source' keys, "
                f"got {type(entry).__name__} {entry!r}.\n{form}"
            )


def _roster(agents: Any) -> dict[str, dict[str, Any]]:
    """Return the agents of a bundle file by name; text and lists say what an agent may call and name none."""
    if not isinstance(agents, Mapping):
        return {}
    included: dict[str, dict[str, Any]] = {str(name): {} for name in agents.get("include") or ()}
    return included | {str(name): dict(agent or {}) for name, agent in agents.items() if name != "include"}


def _add_context(bundle: Bundle, named: Any, folder: Path) -> None:
    entries = named if isinstance(named, Mapping) else {}
    references = {str(path): str(path) for path in entries.get("include") or ()}
    references |= {str(name): str(path) for name, path in entries.items() if name != "include"}
    for name, reference in references.items():
        namespace, colon, path = reference.partition(":")
        if colon and namespace == bundle.name:
            bundle.context[name] = bundle._root() / path
        elif colon:
            bundle._pending_context[name] = reference
        else:
            bundle.context[name] = (folder / reference).resolve()


def _keys(section: str, value: Any) -> list[str]:
    from amplifier_foundation.merge import module_key

    if section in _NAMED:
        return [str(name) for name in value if name != "include"] if isinstance(value, Mapping) else []
    return [key for entry in value or () if (key := module_key(entry))] if isinstance(value, list) else []


def _own_origins(bundle: Bundle) -> dict[str, list[Origin]]:
    """Return the origins of a bundle that is not made of others."""
    return {
        f"{section}:{key}": [Origin(bundle.name)]
        for section in (*MODULE_SECTIONS, *_NAMED)
        for key in _keys(section, getattr(bundle, section))
    }


def _origins_of_layers(bundle: Bundle, layers: tuple[Layer, ...]) -> dict[str, list[Origin]]:
    """Return the origins of a bundle by the files that it was composed from."""
    origins: dict[str, list[Origin]] = {}
    for layer in layers:
        data = layer.document.data
        origin = Origin(layer.bundle, layer.bundle if layer.bundle != bundle.name else None)
        for section in (*MODULE_SECTIONS, *_NAMED):
            value = data.get(section)
            included = value.get("include") or () if section in _NAMED and isinstance(value, Mapping) else ()
            for key in (*_keys(section, value), *map(str, included)):
                known = origins.setdefault(f"{section}:{key}", [])
                if origin not in known:
                    known.append(origin)
    return origins


def _log(warnings: list[str]) -> None:
    import logging

    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)
