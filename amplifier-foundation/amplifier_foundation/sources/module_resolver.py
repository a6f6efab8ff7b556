"""Give the kernel the folders of prepared modules, and find the folders of modules that are named by id alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError
from amplifier_core.module_sources import ModuleSource
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home

#: Who put a module where it was found.
FoundBy = Literal["environment", "project", "user"]

_ID: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]*"


class ModuleFolderError(FoundationError):
    """A variable names a module's folder, but the folder does not exist."""

    code = "module_folder"


class FolderSource(ModuleSource):
    """A module in a folder of this machine, ready to be loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        """Return the folder; raise the kernel's ModuleNotFoundError when it was deleted since it was prepared."""
        if not self.path.exists():
            raise SourceNotFoundError(f"{self.path} is gone: it was there when the session was prepared")
        return self.path

    def __repr__(self) -> str:
        return str(self.path)


class PreparedModules:
    """The kernel's `module-source-resolver`: modules that were fetched and installed before the session started.

    An unknown id raises the kernel's ModuleNotFoundError, upon which its loader looks at what is installed.
    """

    def __init__(self, paths: Mapping[str, Path], check: Callable[[str], None] = lambda module_id: None) -> None:
        """`check` is called before the loader looks for a module that was not prepared, and raises to refuse it."""
        self._sources = {module_id: FolderSource(path) for module_id, path in paths.items()}
        self.check = check

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> FolderSource:
        """Return the folder of a prepared module; raise the kernel's ModuleNotFoundError for any other."""
        source = self._sources.get(module_id)
        if source is None:
            hint = source_hint if source_hint is not None else profile_hint
            named = f" (its source is {hint})" if hint is not None else ""
            raise SourceNotFoundError(f"module {module_id!r} was not prepared with this session{named}")
        return source

    async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> FolderSource:
        """Return the folder of a prepared module; raises what `check` raises, and as `resolve`."""
        if module_id not in self._sources:
            self.check(module_id)
        return self.resolve(module_id, source_hint, profile_hint)

    def get_module_source(self, module_id: str) -> str | None:
        """Return the folder of a prepared module as text, None for an unknown one."""
        source = self._sources.get(module_id)
        return None if source is None else str(source)


def module_variable(module_id: str) -> str:
    """Return the name of the environment variable that may name a module's folder."""
    return "AMPLIFIER_MODULE_" + re.sub(r"[^A-Z0-9]", "_", module_id.upper())


def find_module_folder(
    module_id: str, project: Path, home: Home, environ: Mapping[str, str]
) -> tuple[Path, FoundBy] | None:
    """Return the folder of a module and who put it there: a variable, the project, the user's home; else None.

    Raises ModuleFolderError when the variable is set and names no folder: what was asked for must not be passed over.
    """
    variable = module_variable(module_id)
    if named := environ.get(variable, "").strip():
        folder = Path(os.path.expanduser(named.removeprefix("file://")))
        if not folder.is_dir():
            raise ModuleFolderError(
                f"{variable}={named}: there is no such folder: give the folder of module {module_id!r}, or unset it"
            )
        return folder.resolve(), "environment"
    if not re.fullmatch(_ID, module_id):
        return None  # an id that is not a valid file name cannot name a folder
    places: tuple[tuple[Path, FoundBy], ...] = ((project / ".amplifier", "project"), (home.path, "user"))
    for place, who in places:
        folder = place / "modules" / module_id
        if folder.is_dir():
            # A project that is the user's home folder has the user's modules.
            return folder, "user" if place.resolve() == home.path.resolve() else who
    return None
