"""Find the files that name a deprecated bundle, and tell the person about it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.guard.files.configured_file import ConfiguredFile, project_of
from amplifier_kit.home import amplifier_home
from amplifier_module_hooks_deprecation.config import Deprecation

__all__ = ["EVENT", "NAME", "DeprecationNotice"]

logger = logging.getLogger(__name__)

NAME: Final = "hooks-deprecation"
EVENT: Final = "deprecation:warning"
_LARGEST: Final = 1_000_000
#: Files that name bundles: in the home, and in a project.
_IN_HOME: Final = ("settings.yaml", "bundles/*.md", "bundles/*.yaml")
_IN_PROJECT: Final = (
    *(".amplifier/settings.yaml", ".amplifier/settings.local.yaml", ".amplifier/bundles/*.md"),
    *(".amplifier/bundles/*.yaml", "bundle.md", "bundle.yaml", "bundle.yml"),
)


class DeprecationNotice:
    """Tell the person of one session, once."""

    def __init__(self, coordinator: Any, deprecations: tuple[Deprecation, ...]) -> None:
        self._coordinator = coordinator
        self._deprecations = deprecations
        self._is_told = False

    async def on_session_start(self, event: str, data: Any) -> None:
        """Show each deprecation and emit `deprecation:warning`; child sessions are left out."""
        if self._is_told or self._coordinator.parent_id is not None:
            return
        self._is_told = True
        for deprecation in self._deprecations:
            files = await asyncio.to_thread(self._files, deprecation.bundle_name)
            if deprecation.require_evidence and not files:
                continue
            text = _text(deprecation, files)
            if self._coordinator.display_system is not None:
                display = self._coordinator.display_system
                await maybe_await(display.show_message(text, deprecation.severity, NAME))
            else:
                logger.warning("%s", text)
            facts = {"bundle_name": deprecation.bundle_name, "replacement": deprecation.replacement}
            more = {"severity": deprecation.severity, "source_files": files}
            await self._coordinator.hooks.emit(EVENT, {**facts, **more})

    def _files(self, bundle: str) -> list[str]:
        """Return the files of the user and the project that name a bundle."""
        name = re.compile(rf"(?<![\w-]){re.escape(bundle)}(?![\w-])")
        found = []
        for file, project in self._candidates():
            try:
                content = ConfiguredFile(file, project).read(_LARGEST)
            except OSError:
                continue  # what cannot be read is no evidence
            if name.search(content.decode("utf-8", "replace")):
                found.append(str(file))
        return found

    def _candidates(self) -> Iterator[tuple[Path, Path | None]]:
        home = Path(str(self._coordinator.get_capability("amplifier.home") or amplifier_home()))
        project = project_of(self._coordinator)
        for folder, patterns, confined in ((home, _IN_HOME, None), (project, _IN_PROJECT, project)):
            for pattern in patterns:
                yield from ((file, confined) for file in sorted(folder.glob(pattern)))


def _text(deprecation: Deprecation, files: list[str]) -> str:
    lines = [f"The bundle '{deprecation.bundle_name}' is deprecated: {deprecation.message}"]
    if deprecation.sunset_date:
        lines.append(f"It will be gone on {deprecation.sunset_date}.")
    if deprecation.replacement:
        lines.append(f"Use '{deprecation.replacement}' in its place.")
    if deprecation.migration:
        lines.append(deprecation.migration)
    if files:
        lines.append(f"Named in {', '.join(files)}.")
    return "\n".join(lines)
