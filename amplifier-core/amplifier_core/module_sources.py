"""Where a module's files come from: the interface between the loader and an app's resolver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "FileSystemModuleSource",
    "ModuleLoadError",
    "ModuleNotFoundError",
    "ModuleSource",
    "ModuleSourceResolver",
]


class ModuleNotFoundError(Exception):
    """No source is known for a module id. Not the builtin of that name."""


class ModuleLoadError(Exception):
    """A source was found but the module in it could not be loaded."""


class ModuleSource(ABC):
    """The files of one module."""

    @abstractmethod
    def resolve(self) -> Path:
        """Return the local folder that holds the module, fetching it first where needed.

        Raise `ModuleNotFoundError` when there is none.
        """


class ModuleSourceResolver(Protocol):
    """Find the source of a module by its id.

    A resolver may also have `async_resolve` with the same arguments; the loader then awaits that one instead.
    """

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> ModuleSource:
        """Return the source of `module_id`; raise `ModuleNotFoundError` when there is none.

        `source_hint` is the `source` of the module in the plan; `profile_hint` is its older name, with the same value.
        """
        ...


class FileSystemModuleSource:
    """A list of folders to search for modules."""

    def __init__(self, paths: Iterable[str] | None = None) -> None:
        self._paths = [] if paths is None else list(paths)
        self._mention_mappings: dict[str, str] = {}

    def get_module_paths(self) -> list[str]:
        return list(self._paths)

    def get_mention_mappings(self) -> dict[str, str]:
        return dict(self._mention_mappings)
