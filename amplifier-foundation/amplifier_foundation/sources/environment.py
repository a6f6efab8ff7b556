"""Know what the running program has installed, and what of a module's requirements that leaves open."""

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

#: Never installed for a module, whatever it asks for: these are the running program itself.
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
    """What requirements leave open."""

    #: Not there at all: to be installed.
    missing: list[Requirement] = field(default_factory=list)
    #: There in a version that will not do, in words that name both versions.
    conflicts: list[str] = field(default_factory=list)
    #: The same requirements, for who can still choose another version.
    mismatched: list[Requirement] = field(default_factory=list)
    #: Met by the environment, as text.
    relies_on: set[str] = field(default_factory=set)


class Environment:
    """The distributions that the program and the modules of one activation bring with them.

    `without` names the folder below which modules' dependencies are installed: they belong to modules, not to the
    program, and another process has others.
    """

    def __init__(self, without: Path, siblings: Mapping[str, ModuleProject] | None = None) -> None:
        hidden = str(without)
        self._paths = [path for path in sys.path if not path.startswith(hidden)]
        self._siblings = siblings or {}

    def version(self, name: str) -> str | None:
        """Return the version of a distribution; None when it is not there."""
        found = _distribution(name, self._paths)
        if found is not None:
            return found.version
        sibling = self._siblings.get(name)
        return None if sibling is None else sibling.version

    def requirements_of(self, name: str, extra: str) -> list[Requirement]:
        """Return what a distribution that is there needs in addition when it is asked for with an extra."""
        from packaging.requirements import Requirement

        found = _distribution(name, self._paths)
        if found is None:
            sibling = self._siblings.get(name)
            return [] if sibling is None else [Requirement(wish) for wish in sibling.optional.get(extra, ())]
        return [wish for wish in _requires(found) if _applies(wish, extra) and not _applies(wish, "")]

    def names(self) -> set[str]:
        """Return the names of everything there is, for an installer that is to leave them alone."""
        from importlib.metadata import distributions

        from packaging.utils import canonicalize_name

        names = {found.metadata["Name"] for found in distributions(path=self._paths)}
        return {canonicalize_name(name) for name in names if name} | set(self._siblings) | PRODUCT

    def unmet(self, requirements: Iterable[Requirement]) -> Unmet:
        """Return what the environment does not have of the requirements, extras of what it has included."""
        return unmet(requirements, (), self)


def unmet(requirements: Iterable[Requirement], folders: Sequence[Path], environment: Environment) -> Unmet:
    """Return what neither the folders nor the environment have, dependencies of what is in the folders included.

    Of several folders the first one that has a distribution counts.
    """
    from packaging.utils import canonicalize_name

    result = Unmet()
    paths = [str(folder) for folder in folders]
    waiting = [(wish, "") for wish in requirements if _applies(wish, "")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        wish, asker = waiting.pop()
        name = canonicalize_name(wish.name)
        if (str(wish), name) in seen:
            continue
        seen.add((str(wish), name))
        inner = _distribution(name, paths) if paths else None
        version = environment.version(name) if inner is None else inner.version
        if version is None:
            _note_missing(result, wish, name, asker)
        elif not _satisfies(wish, version):
            result.conflicts.append(f"{asker}needs {_plain(wish)}, but {name} {version} is there")
            if inner is not None:
                result.mismatched.append(wish)
        elif inner is not None:
            by = f"{name} {version} "
            waiting += [(further, by) for further in _requires(inner) if _applies_to_any(further, wish.extras)]
        else:
            result.relies_on.add(str(wish))
            extras = sorted(wish.extras)
            waiting += [(further, asker) for extra in extras for further in environment.requirements_of(name, extra)]
    return result


def installed_in(folder: Path) -> dict[str, str]:
    """Return name and version of every distribution in a folder."""
    from importlib.metadata import distributions

    from packaging.utils import canonicalize_name

    return {canonicalize_name(found.metadata["Name"]): found.version for found in distributions(path=[str(folder)])}


def _note_missing(result: Unmet, wish: Requirement, name: str, asker: str) -> None:
    if name in PRODUCT:
        result.conflicts.append(f"{asker}needs {_plain(wish)}, a part of the program that is not installed here")
    else:
        result.missing.append(wish)


def _satisfies(wish: Requirement, version: str) -> bool:
    """Return whether a version will do; a distribution from an address has no other version to be."""
    if wish.url is not None or version == UNKNOWN_VERSION:
        return True
    return wish.specifier.contains(version, prereleases=True)


def _applies(wish: Requirement, extra: str) -> bool:
    return wish.marker is None or wish.marker.evaluate({"extra": extra})


def _applies_to_any(wish: Requirement, extras: Iterable[str]) -> bool:
    return any(_applies(wish, extra) for extra in ("", *extras))


def _plain(wish: Requirement) -> str:
    """Return a requirement without its marker, which has been evaluated."""
    return str(wish).partition(";")[0].strip()


def _requires(found: Distribution) -> Iterator[Requirement]:
    from packaging.requirements import InvalidRequirement, Requirement

    for text in found.requires or ():
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue  # metadata of old distributions; the installer has read it with more patience


def _distribution(name: str, paths: list[str]) -> Distribution | None:
    from importlib.metadata import distributions

    return next(iter(distributions(name=name, path=paths)), None)
