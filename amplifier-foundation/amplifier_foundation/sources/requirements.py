"""Find what a module requires and the program does not have."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_foundation.sources.module_project import UNKNOWN_VERSION, ModuleProject

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from packaging.requirements import Requirement

#: Never installed for a module, whatever it requires: these are the running program itself.
PRODUCT: Final = frozenset(
    {
        "amplifier",
        "amplifier-app-cli",
        "amplifier-core",
        "amplifier-digital-twin",
        "amplifier-foundation",
        "amplifier-kit",
    }
)


@dataclass
class Unmet:
    """The requirements that are not satisfied."""

    #: Not installed: to be installed.
    missing: list[Requirement] = field(default_factory=list)
    #: Installed in a version that does not satisfy the requirement; the text names both versions.
    conflicts: list[str] = field(default_factory=list)


class Environment:
    """The distributions of the program and of the modules that are activated together.

    `hidden` is the folder below which dependencies of modules are installed: they are not the program's.
    """

    def __init__(self, hidden: Path, siblings: Mapping[str, ModuleProject] | None = None) -> None:
        self._paths = [path for path in sys.path if not path.startswith(str(hidden))]
        self._siblings = siblings or {}

    def version(self, name: str) -> str | None:
        """Return the version of a distribution, None when it is missing."""
        found = _distribution(name, self._paths)
        if found is not None:
            return found.version
        sibling = self._siblings.get(name)
        return None if sibling is None else sibling.version

    def requirements_of_extra(self, name: str, extra: str) -> list[Requirement]:
        """Return what an extra adds to the requirements of a distribution of the environment."""
        from packaging.requirements import Requirement

        found = _distribution(name, self._paths)
        if found is None:
            sibling = self._siblings.get(name)
            return [] if sibling is None else [Requirement(text) for text in sibling.optional.get(extra, ())]
        return [inner for inner in _requires(found) if _applies(inner, extra) and not _applies(inner, "")]

    def names(self) -> set[str]:
        """Return the names of everything an installer has to leave alone."""
        from importlib.metadata import distributions

        from packaging.utils import canonicalize_name

        names = {found.metadata["Name"] for found in distributions(path=self._paths)}
        return {canonicalize_name(name) for name in names if name} | set(self._siblings) | PRODUCT

    def unmet(self, requirements: Iterable[Requirement], folders: Sequence[Path] = ()) -> Unmet:
        """Return what neither the environment nor the folders satisfy, in the order in which Python would look.

        The requirements of distributions in the folders count too, and so do the extras of those in the environment.
        """
        from packaging.utils import canonicalize_name

        result = Unmet()
        paths = [str(folder) for folder in folders]
        pending = [(requirement, "") for requirement in requirements if _applies(requirement, "")]
        seen: set[str] = set()
        while pending:
            requirement, required_by = pending.pop()
            if str(requirement) in seen:
                continue
            seen.add(str(requirement))
            name = canonicalize_name(requirement.name)
            version = self.version(name)
            installed = _distribution(name, paths) if version is None and paths else None
            if installed is not None:
                version = installed.version
            if version is None and name in PRODUCT:
                result.conflicts.append(
                    f"{required_by}needs {_without_marker(requirement)}, which is part of the program and not installed"
                )
            elif version is None:
                result.missing.append(requirement)
            elif not _satisfies(requirement, version):
                result.conflicts.append(
                    f"{required_by}needs {_without_marker(requirement)}, but {name} {version} is installed"
                )
            elif installed is not None:
                inner = [one for one in _requires(installed) if _applies_to_any(one, requirement.extras)]
                pending += [(one, f"{name} {version} ") for one in inner]
            else:
                extras = sorted(requirement.extras)
                inner = [one for extra in extras for one in self.requirements_of_extra(name, extra)]
                pending += [(one, required_by) for one in inner]
        return result


def installed_in(folder: Path) -> dict[str, str]:
    """Return name and version of every distribution in a folder."""
    from importlib.metadata import distributions

    from packaging.utils import canonicalize_name

    return {canonicalize_name(found.metadata["Name"]): found.version for found in distributions(path=[str(folder)])}


def _satisfies(requirement: Requirement, version: str) -> bool:
    """Return whether a version will do; a distribution required by its address matches no other version."""
    if requirement.url is not None or version == UNKNOWN_VERSION:
        return True
    return requirement.specifier.contains(version, prereleases=True)


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _applies_to_any(requirement: Requirement, extras: Iterable[str]) -> bool:
    return any(_applies(requirement, extra) for extra in ("", *extras))


def _without_marker(requirement: Requirement) -> str:
    return str(requirement).partition(";")[0].strip()


def _requires(found: Distribution) -> Iterator[Requirement]:
    from packaging.requirements import InvalidRequirement, Requirement

    for text in found.requires or ():
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue  # metadata of old distributions, which installers read more tolerantly


def _distribution(name: str, paths: list[str]) -> Distribution | None:
    from importlib.metadata import distributions

    return next(iter(distributions(name=name, path=paths)), None)
