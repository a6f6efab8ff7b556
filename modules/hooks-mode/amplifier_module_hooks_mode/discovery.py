"""Find the modes of a session: Markdown files in the folders of the project, the user, this module and the config."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.files.configured_file import ConfiguredFile, denied_to_model, project_of
from amplifier_kit.guard.project_trust import is_project_trusted, project_around
from amplifier_kit.home import amplifier_home
from amplifier_kit.modes import Mode, parse_mode

__all__ = ["ModeDiscovery"]

logger = logging.getLogger(__name__)

_SHIPPED: Final = Path(__file__).parent / "modes"
_LARGEST: Final = 200_000


class ModeDiscovery:
    """The modes of a session by name; the first of a name counts, and the folders are read on first use.

    Files of the project count only if it is trusted: a mode changes what the model reads as guidance of the user.
    """

    def __init__(self, coordinator: Any, search_paths: tuple[str, ...] = ()) -> None:
        self._coordinator = coordinator
        self._search_paths = search_paths
        self._modes: dict[str, Mode] | None = None
        #: Why files were left out, each with its path.
        self.problems: list[str] = []

    def find(self, name: str) -> Mode | None:
        """Return the mode of that name or shortcut, None for an unknown one."""
        modes = self._found()
        return modes.get(name) or modes.get(self.get_shortcuts().get(name.lower(), ""))

    def list_modes(self) -> list[tuple[str, str, str, bool]]:
        """Return name, description, source, and whether it is advertised, of every mode."""
        return [(mode.name, mode.description, mode.source, mode.advertised) for mode in self._found().values()]

    def get_shortcuts(self) -> dict[str, str]:
        """Return the slash commands, each with the name of its mode."""
        shortcuts: dict[str, str] = {}
        for mode in self._found().values():
            if mode.shortcut is not None:
                shortcuts.setdefault(mode.shortcut, mode.name)
        return shortcuts

    def clear_cache(self) -> None:
        """Read the folders again on next use."""
        self._modes = None

    def _found(self) -> dict[str, Mode]:
        if self._modes is None:
            self.problems = []
            found: dict[str, Mode] = {}
            for folder, source in self._folders():
                for mode in self._in(folder, source):
                    found.setdefault(mode.name, mode)
            self._modes = found
            for problem in self.problems:
                logger.warning("hooks-mode: %s", problem)
        return self._modes

    def _folders(self) -> Iterator[tuple[Path, str]]:
        project = project_of(self._coordinator)
        home = Path(str(self._coordinator.get_capability("amplifier.home") or amplifier_home()))
        yield project / ".amplifier" / "modes", "project"
        yield home / "modes", "user"
        yield _SHIPPED, "modes"
        for path in self._search_paths:
            folder = self._mentioned(path) if path.startswith("@") else project / os.path.expanduser(path)
            if folder is None:
                self.problems.append(f"search_paths: {path!r} does not lead to a folder")
            else:
                yield folder, "config"
        for namespace, root in self._namespaces():
            yield root / "modes", namespace

    def _in(self, folder: Path, source: str) -> Iterator[Mode]:
        try:
            files = sorted(folder.glob("*.md"))
        except OSError as error:
            self.problems.append(f"{folder} cannot be searched: {error.strerror or error}")
            return
        if not files:
            return
        project = project_around(self._coordinator, folder) if folder != _SHIPPED else None
        if project is not None and not is_project_trusted(self._coordinator):
            self.problems.append(f"{folder} is left out: the project is not trusted; `amplifier trust` looks at it")
            return
        for file in files:
            try:
                content = ConfiguredFile(file, project, denied_to_model(self._coordinator)).read(_LARGEST)
                mode = parse_mode(file, content, source)
            except (OSError, ValueError) as error:
                line = f":{error.line}" if hasattr(error, "line") else ""
                self.problems.append(f"{file}{line}: {error}")
                continue
            if mode is not None:
                yield mode

    def _mentioned(self, mention: str) -> Path | None:
        resolver = self._coordinator.get_capability("mention_resolver")
        found = plain_result(resolver.resolve(mention)) if resolver is not None else None
        return Path(found) if found is not None else None

    def _namespaces(self) -> Iterator[tuple[str, Path]]:
        """Yield the namespaces that mentions know, with their roots."""
        resolver = self._coordinator.get_capability("mention_resolver")
        outer = getattr(resolver, "foundation_resolver", resolver)
        bundles, roots = getattr(outer, "bundles", None), getattr(outer, "namespaces", None)
        if isinstance(roots, Mapping):
            yield from ((str(name), Path(root)) for name, root in roots.items())
        elif isinstance(bundles, Mapping):
            for name, bundle in bundles.items():
                if getattr(bundle, "base_path", None) is not None:
                    yield str(name), Path(bundle.base_path)
