"""A bundle: what a session is made of, in memory, with the files it was composed from."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.documents import Document
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.merge import copied
from amplifier_kit.struct import FrozenStruct, Struct

if TYPE_CHECKING:
    from amplifier_foundation.sources.fetched import Fetched

#: What a mount plan is made of; `orchestrator` and its configuration at the top belong to old bundles.
PLAN_SECTIONS: Final = ("session", *MODULE_SECTIONS, "agents", "spawn", "orchestrator")


class BundleError(FoundationError):
    """A bundle cannot be used; the text says which file and line, why, and what to do."""

    code: ClassVar[str] = "bundle_invalid"


class BundleNotFoundError(BundleError):
    """No bundle has that name, or the file does not exist."""

    code: ClassVar[str] = "bundle_not_found"


class IncludeError(BundleError):
    """An included bundle cannot be loaded."""

    code: ClassVar[str] = "bundle_include"


class BundleCycleError(BundleError):
    """A bundle includes itself, directly or through others."""

    code: ClassVar[str] = "bundle_cycle"


class BundleLimitError(BundleError):
    """A bundle has more files, includes or values than any intended bundle would."""

    code: ClassVar[str] = "bundle_limit"


#: Whose file it is. Product, user and project author theirs: unknown keys are errors; in fetched files, warnings.
Owner = Literal["product", "user", "project", "fetched"]
#: Who named a file, wherever it is: what a project's file includes is named by the project.
Namer = Literal["product", "user", "project"]


class Layer(FrozenStruct):
    """One file in the order of composition, later ones on top of earlier ones."""

    document: Document
    owner: Owner
    named_by: Namer
    #: The name of the bundle that the file holds.
    bundle: str
    #: What it was loaded from.
    uri: str
    #: Whether the user gave this very file for this run.
    given_by_user: bool = False


class Bundle(Struct):
    """One file, or several composed into one: the parts of a mount plan, the prompt, and where all of it came from."""

    name: str = ""
    version: str = "1.0.0"
    description: str = ""
    instruction: str = ""
    #: The file that the bundle is named after; None for one made in memory.
    file: Path | None = None
    base_path: Path = field(default_factory=Path)
    uri: str = ""
    session: dict[str, Any] = field(default_factory=dict)
    providers: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)
    spawn: dict[str, Any] = field(default_factory=dict)
    #: Definitions by the name that callers use; an empty one is in a file `agents/<name>.md`.
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Which namespace an agent's file is looked for in, for names that do not say it.
    agent_namespaces: dict[str, str] = field(default_factory=dict)
    orchestrator: Any = None
    #: Files of the system prompt, in order, by `namespace:path` or `bundle:name`.
    context: dict[str, Path] = field(default_factory=dict)
    #: Context whose namespace is not known yet.
    pending_context: tuple[str, ...] = ()
    namespaces: dict[str, Path] = field(default_factory=dict)
    #: Roots with a Python package of their own.
    packages: tuple[Path, ...] = ()
    #: Every file in order of composition, later ones on top.
    layers: tuple[Layer, ...] = ()
    warnings: tuple[str, ...] = ()
    #: What was fetched to read the bundle, by address.
    sources: dict[str, Fetched] = field(default_factory=dict)

    def mount_plan(self) -> dict[str, Any]:
        """Return what the kernel mounts, a copy: only what is not empty."""
        sections = {name: getattr(self, name) for name in PLAN_SECTIONS}
        return {name: copied(value) for name, value in sections.items() if value}
