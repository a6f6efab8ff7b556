"""Find the module under test: its package folder and its kind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_REPOSITORY = "amplifier-module-"
_PACKAGE = "amplifier_module_"

#: The kinds of modules by the words in their names.
_KINDS = {
    "provider": "provider",
    "tool": "tool",
    "hook": "hook",
    "hooks": "hook",
    "orchestrator": "orchestrator",
    "loop": "orchestrator",
    "context": "context",
}


def find_module(starts: Iterable[Path]) -> Path | None:
    """Return the package folder of the module that holds one of `starts`, the first that is in a module at all."""
    for start in starts:
        for folder in (start, *start.parents):
            if folder.name in ("site-packages", "dist-packages"):
                break  # installed packages are not the module under test
            package = package_in(folder)
            if package is not None:
                return package
            if (folder / ".git").exists():
                break  # a module never reaches beyond its repository
    return None


def package_in(folder: Path) -> Path | None:
    """Return the module package that `folder` is or holds, or None.

    A repository folder `amplifier-module-*` may name its package `amplifier_*`; any other folder must hold exactly one
    `amplifier_module_*`, so that a folder of many modules is not mistaken for one.
    """
    if folder.name.startswith(_PACKAGE) and _is_package(folder):
        return folder
    packages = [package for place in (folder, folder / "src") for package in _packages(place, _PACKAGE)]
    if len(packages) == 1:
        return packages[0]
    if folder.name.startswith(_REPOSITORY):
        return next(iter(packages or _packages(folder, "amplifier_")), None)
    return None


def module_kind(package: Path) -> str | None:
    """Return provider, tool, hook, orchestrator or context by the names of the package and the folder above it."""
    for name in (package.name, package.parent.name):
        words = name.replace("-", "_").removeprefix(_PACKAGE).split("_")
        kind = next((_KINDS[word] for word in words if word in _KINDS), None)
        if kind is not None:
            return kind
    return None


def _packages(folder: Path, prefix: str) -> list[Path]:
    try:
        return sorted(path for path in folder.glob(f"{prefix}*") if _is_package(path))
    except OSError:  # an unreadable folder counts as empty
        return []


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()
