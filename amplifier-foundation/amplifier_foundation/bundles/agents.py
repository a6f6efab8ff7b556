"""Collect the agents of a bundle: its roster, and the files that define them.

Callers use the name in the roster (`ns:explorer`), whatever the file calls its agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.bundles.agent_file import (
    AgentError,
    agent_definition,
    check_agent,
    load_agent_file,
    missing_texts,
)
from amplifier_foundation.bundles.anchors import is_inside
from amplifier_foundation.bundles.bundle import BundleError, BundleLimitError, Layer, Owner
from amplifier_foundation.bundles.checks import problems_of
from amplifier_foundation.bundles.shipped import owner_of
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.paths import Home
from amplifier_kit.struct import FrozenStruct

#: The key of an agent that cannot be used: its faults, one in a line.
UNUSABLE: Final = "unusable"
#: Each is a file that is read before the session starts.
MAX_AGENTS: Final = 1_000

__all__ = [
    "UNUSABLE",
    "AgentError",
    "agent_declared_by",
    "discover_agents",
    "load_agent_file",
    "resolve_agents",
]


def discover_agents(folder: Path) -> dict[str, Path]:
    """Return the agent files of a folder by name, sorted; empty if the folder does not exist.

    Raises AgentError for a folder that exists but cannot be listed.
    """
    try:
        return {path.stem: path for path in sorted(folder.iterdir()) if path.suffix == ".md" and path.is_file()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise AgentError(f"{folder}: cannot look for agents: {error.strerror or error}") from error


def resolve_agents(
    agents: Mapping[str, Any],
    namespaces: Mapping[str, Path],
    default_namespace: str,
    project: Path,
    home: Home,
    *,
    warnings: list[str],
    agent_namespaces: Mapping[str, str] | None = None,
    layers: Sequence[Layer] = (),
    allow_missing: bool = False,
    files: dict[str, Path] | None = None,
    keep_faulty: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the definition of every agent in a roster, by the names that callers use; the roster is not changed.

    `{include: [names]}` and empty definitions are read from files, and a file fills the gaps of an inline definition
    key by key. `ns:name` is `agents/name.md` below the root of the namespace. A name without namespace is looked for in
    that of `agent_namespaces`, else `default_namespace`, then in `agents` of the home. A name that the project itself
    declares is looked for in its `.amplifier/agents` before the home; other names are not: the file that puts an agent
    on the roster vouches for its modules, and a project must not substitute others. `layers` are the bundle's files:
    they show who named an agent, and on which line. `files` gets the file of each agent that was read from one.

    Raises AgentError with the errors of all agents, and BundleLimitError when there are too many. With `allow_missing`,
    an agent without a file is left out with a warning, and so is a module source that does not exist. With
    `keep_faulty`, an agent whose definition has errors stays on the roster with a warning; its definition is then only
    the errors, under `UNUSABLE`, so that a caller of the agent reads why it cannot be used.
    """
    known = files if files is not None else {}
    roster = _Roster(
        namespaces, default_namespace, project, home, agent_namespaces or {}, layers, warnings, allow_missing, known
    )
    definitions: dict[str, dict[str, Any]] = {}
    faults: list[str] = []
    for count, (name, inline) in enumerate(_listed(agents), start=1):
        if count > MAX_AGENTS:
            raise BundleLimitError(f"the bundle has more than {MAX_AGENTS:,} agents: list fewer of them")
        try:
            definitions[name] = roster.definition(name, inline)
        except _NoAgentError as error:
            (warnings if allow_missing else faults).append(str(error))
        except BundleError as error:
            if keep_faulty and isinstance(name, str):
                definitions[name] = {"name": name, "description": "cannot be used", UNUSABLE: str(error)}
            (warnings if keep_faulty and isinstance(name, str) else faults).append(str(error))
    if faults:
        raise AgentError("\n".join(dict.fromkeys(faults)))
    return definitions


class AgentNotFoundError(AgentError):
    """A bundle has no agent of that name."""

    code = "agent_not_found"


class _NoAgentError(AgentError):
    """There is neither a file nor an inline definition."""


class _Roster(FrozenStruct):
    """Finds the files of agents."""

    namespaces: Mapping[str, Path]
    default_namespace: str
    project: Path
    home: Home
    agent_namespaces: Mapping[str, str]
    layers: Sequence[Layer]
    warnings: list[str]
    allow_missing: bool
    files: dict[str, Path]

    def definition(self, name: Any, inline: Any) -> dict[str, Any]:
        """Return one agent's definition; raises BundleError."""
        where, owner = self._declared(name)
        if not isinstance(name, str):
            raise AgentError(f"{where}: the name of an agent must be a text, got {name!r}: put it in quotes")
        if inline is not None and not isinstance(inline, Mapping):
            raise AgentError(f"{where}: the agent {name!r} must be a mapping, got {type(inline).__name__}")
        self._check(name, inline or {}, where, owner)
        given = agent_definition(inline or {})
        # The definition of an included name may hold that name and nothing else.
        found = self._file(name, where, required=not any(key != "name" for key in given))
        if found is not None:
            given, where = {**self._load(*found), **given}, str(found[0])
            self.files[name] = found[0]
        self.warnings.extend(f"{where}: {text}" for text in missing_texts(given))
        return given

    def _check(self, name: str, inline: Mapping[str, Any], where: str, owner: Owner) -> None:
        """Check what the check of bundles does not cover in inline definitions; raise AgentError with all errors."""
        problems = problems_of(lambda *keys: f"{where}: agent {name!r}", owner)
        check_agent(inline, problems)
        self.warnings.extend(problems.warnings)
        if problems.faults:
            raise AgentError("\n".join(problems.faults))

    def _load(self, file: Path, root: Path) -> dict[str, Any]:
        owner = owner_of(file, self.project, self.home)
        on_missing = self.warnings.append if self.allow_missing else None
        return load_agent_file(file, owner, self.warnings, root=root, on_missing=on_missing)

    def _file(self, name: str, where: str, *, required: bool) -> tuple[Path, Path] | None:
        """Return the file of an agent and the root of what it belongs to."""
        namespace, colon, path = name.partition(":") if ":" in name else ("", "", name)
        if path.startswith("/") or ".." in path.split("/") or not path:
            raise AgentError(f"{where}: {name!r} names no agent: write 'name' or 'namespace:name', without '..'")
        if colon and namespace not in self.namespaces:
            if not required:
                return None
            known = did_you_mean(namespace, sorted(self.namespaces))
            raise _NoAgentError(f"{where}: the agent {name!r} is in no namespace that is known: {known}")
        places = list(self._places(name, namespace, path, bool(colon)))
        for file, root in places:
            if file.is_file():
                # A user may link their own files as they like; projects and fetched bundles may not lead out.
                if not is_inside(file, root) and owner_of(root, self.project, self.home) in ("project", "fetched"):
                    raise AgentError(f"{where}: {file} is a link out of {root}: put the file itself there")
                return file, root
        if not required:
            return None
        tried = ", ".join(str(file) for file, _ in places)
        raise _NoAgentError(f"{where}: there is no agent {name!r}: looked for {tried}")

    def _places(self, name: str, namespace: str, path: str, is_named: bool) -> Iterator[tuple[Path, Path]]:
        namespace = namespace if is_named else self.agent_namespaces.get(name, self.default_namespace)
        root = self.namespaces.get(namespace)
        if root is not None:
            yield root / "agents" / f"{path}.md", root
            if path.startswith("agents/"):
                yield root / f"{path}.md", root
        if not is_named:
            declared = agent_declared_by(self.layers, name)
            if declared is not None and declared[0].named_by == "project":
                yield self.project / ".amplifier" / "agents" / f"{path}.md", self.project
            yield self.home.path / "agents" / f"{path}.md", self.home.path

    def _declared(self, name: str) -> tuple[str, Owner]:
        declared = agent_declared_by(self.layers, name)
        return (declared[1], declared[0].owner) if declared is not None else ("agents", "user")


def agent_declared_by(layers: Sequence[Layer], name: str) -> tuple[Layer, str] | None:
    """Return the file that puts an agent on the roster, and `file:line` of those words; the last file counts."""
    for layer in reversed(layers):
        agents = layer.document.data.get("agents")
        if not isinstance(agents, Mapping):
            continue
        if name in agents and name != "include":
            return layer, layer.document.where("agents", name)
        included = agents.get("include")
        if isinstance(included, list) and name in included:
            return layer, layer.document.where("agents", "include", included.index(name))
    return None


def _listed(agents: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return names and inline definitions, included ones first."""
    included = agents.get("include")
    names = included if isinstance(included, list) else []
    inline = {name: value for name, value in agents.items() if name != "include" or isinstance(value, Mapping)}
    return [(name, inline.get(name)) for name in dict.fromkeys([*names, *inline])]
