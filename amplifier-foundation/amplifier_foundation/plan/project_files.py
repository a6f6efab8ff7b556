"""Find the files of a project that a plan is composed from or that run in its session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation.trust.check import PACKAGES, local_folder

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer
    from amplifier_foundation.plan.composed import Composed
    from amplifier_foundation.plan.prepared import Prepared


def code_in_project(composed: Composed, layers: Iterable[Layer], project: Path, home: Path) -> tuple[Path, ...]:
    """Return the parts of a project that form a session's plan or run in it: its bundle's files, agents and modules.

    Files and folders, with links followed; nothing in the home, which is the user's. A module or package
    that is the project as a whole is the project itself.
    """
    files = [layer.document.path for layer in layers]
    roots = [*(Path(root) for root in composed.namespaces.values()), *(path.parent for path in files)]
    agents = [root / "agents" for root in roots if (root / "agents").is_dir()]
    modules = [path for use in composed.modules if (path := local_folder(use.source)) is not None]
    return _inside([*files, *agents, *modules], project, home)


def control_files_of(prepared: Prepared) -> tuple[Path, ...]:
    """Return what a session was made of, as far as it is in the project: the capability `session.control_files`.

    Besides what runs, that is what its bundle has the model read at the start. The project as a whole is left out, also
    when it is a module or a package of the bundle: the work is done there.
    """
    composed, project = prepared.composed, prepared.project
    code = code_in_project(composed, prepared.layers, project, prepared.home.path)
    loaded = [*prepared.modules.values(), *prepared.package_paths, *map(Path, composed.context.values())]
    found = dict.fromkeys((*code, *_inside(loaded, project, prepared.home.path)))
    is_package = {Path(use.source).resolve() for use in composed.modules if use.section == PACKAGES}
    here = project.resolve()
    if here in is_package:  # its `src`, too, is what is worked on
        found = dict.fromkeys(path for path in found if path not in map(Path.resolve, prepared.package_paths))
    return tuple(path for path in found if path != here)


def _inside(paths: Iterable[Path], project: Path, home: Path) -> tuple[Path, ...]:
    here, own = project.resolve(), home.resolve()
    found = (path.resolve() for path in paths)
    return tuple(dict.fromkeys(path for path in found if path.is_relative_to(here) and not path.is_relative_to(own)))
