"""A session's parts, ready to run: what it is made of, and where its modules are on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import Composed
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer


class Prepared(FrozenStruct):
    """Everything that a session needs besides its own data."""

    composed: Composed
    home: Home
    project: Path
    #: Folders of the modules that are not installed with the program, by module id.
    modules: Mapping[str, Path] = field(default_factory=dict)
    #: Folders with the dependencies of those modules, for the end of the import path.
    site_folders: tuple[Path, ...] = ()
    #: Import paths of the bundles' own packages.
    package_paths: tuple[Path, ...] = ()
    #: What the user should know, in readable lines.
    warnings: tuple[str, ...] = ()
    #: Whether it was made from the record of the session, which then stays what it is.
    is_recorded: bool = False
    #: Every file that contributed to it, later ones on top. If it was made from a record: the files of the bundle as it
    #: is now if its rules are still the recorded ones, else none.
    layers: tuple[Layer, ...] = field(default=(), repr=False)
    #: Whether an app made the plan itself, without any files.
    is_made_by_app: bool = False
    #: What the kernel asks for the folders of modules; None for one that knows `modules`.
    resolver: Any = field(default=None, repr=False)
    #: Whether the prompt has the instructions of the project and the user (AGENTS.md).
    has_project_instructions: bool = True

    @classmethod
    def from_plan(
        cls, plan: dict[str, Any], home: Path, project: Path, *, name: str = "plan", instruction: str = ""
    ) -> Prepared:
        """Return a plan as it is, for apps that make their own: nothing is fetched, installed or asked for trust."""
        return cls(Composed(name, name, "", "", plan, instruction), Home(home), project, is_made_by_app=True)
