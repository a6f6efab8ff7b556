"""Find the hooks of a session once, at its beginning: what a file says later is for the next session.

A session could otherwise be made to run what it has written itself. Files of the project count only when its folder is
trusted: opening somebody else's folder is not consent to run its commands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from amplifier_core.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct, Struct
from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.entry import Hook, Problem, Source, read_entries
from amplifier_module_hook_shell.regular_file import read_plain

#: Larger files are refused.
_FILE_LIMIT: Final = 1024 * 1024
_MOST_FILES: Final = 200
_MOST_FOLDERS: Final = 2000
_MOST_GROUPS: Final = 1_000_000  # more than a file of that size can hold
_NAME: Final = "hooks.json"
NOT_TRUSTED: Final = "the folder of the project is not trusted"
CONFIG_NOT_TRUSTED: Final = f"the project may have had a say in this config, and {NOT_TRUSTED}"


class Trust(FrozenStruct):
    """Whose word counts."""

    #: Whether the folder of the project is trusted.
    project: bool
    #: Whether everything that contributed to the config of this module is trusted.
    config: bool
    #: Whether the project may have had a say in the config, trusted or not.
    is_config_of_project: bool = False


class Refused(NamedTuple):
    """A file whose hooks do not run."""

    file: str
    events: list[str]
    hooks: int
    reason: str


class Shelf(Struct):
    """What was found, in the order in which it runs: first what the config says, then what files say."""

    configured: list[Hook] = field(default_factory=list)
    filed: list[Hook] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    #: From where on the groups of the next file are numbered.
    _groups: int = 0

    @classmethod
    def of_config(cls, settings: ShellHooksConfig, trust: Trust) -> Shelf:
        """Return what the config of the module says; no file is read."""
        shelf = cls()
        if settings.hooks:
            refusal = "" if trust.config else CONFIG_NOT_TRUSTED
            source = Source("config", refusal=refusal, is_projects=trust.is_config_of_project)
            shelf._take(settings.hooks, source, shelf.configured)
        return shelf

    @classmethod
    def read(cls, settings: ShellHooksConfig, project: Path, home: Path | None, trust: Trust) -> Shelf:
        """Read every file there is; never raises for what is in them. Blocks: files may be on a slow disk."""
        shelf = cls.of_config(settings, trust)
        seen: set[str] = set()
        for path, source in _files(settings, project, home, trust, shelf.problems):
            real = os.path.realpath(path)
            if real in seen:
                continue  # one file that is reached by two ways
            seen.add(real)
            section = _section(path, source, shelf.problems)
            if section is not None:
                shelf._take(section, source, shelf.filed)
        return shelf

    def _take(self, section: Any, source: Source, hooks: list[Hook]) -> None:
        entries = read_entries(section, source, self._groups)
        self._groups += _MOST_GROUPS
        if not source.refusal:
            hooks += entries.hooks
            self.problems += entries.problems
        elif entries.hooks:
            events = list(dict.fromkeys(hook.moment.name for hook in entries.hooks))
            self.refused.append(Refused(source.label, events, len(entries.hooks), source.refusal))


def _files(
    settings: ShellHooksConfig, project: Path, home: Path | None, trust: Trust, problems: list[Problem]
) -> Iterator[tuple[Path, Source]]:
    """Yield the files in the order in which their hooks run; the user's come first, even if listed again."""
    if home is not None:
        for path in _hooks_files(home / "hooks", problems):
            yield path, Source(f"home/{path.relative_to(home).as_posix()}", path.parent)
    for given in settings.files:
        path = project / os.path.expanduser(given)
        is_inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(project))
        is_projects = is_inside or trust.is_config_of_project
        yield path, Source(given, path.parent, "" if trust.config else CONFIG_NOT_TRUSTED, is_projects)
    refusal = "" if trust.project else NOT_TRUSTED
    for path in _hooks_files(project / ".amplifier" / "hooks", problems):
        yield path, Source(path.relative_to(project).as_posix(), path.parent, refusal, is_projects=True)
    if settings.claude_settings:
        for name in ("settings.json", "settings.local.json"):
            path = project / ".claude" / name
            if path.exists():
                yield path, Source(f".claude/{name}", path.parent, refusal, is_projects=True, is_claude=True)


def _hooks_files(folder: Path, problems: list[Problem]) -> list[Path]:
    """Return the files below a folder, sorted; links to folders are not followed, so that there is an end."""
    found: list[Path] = []
    for count, (place, folders, files) in enumerate(os.walk(folder)):
        if count >= _MOST_FOLDERS or len(found) >= _MOST_FILES:
            problems.append(Problem(str(folder), "there is too much in this folder; the rest is not looked at"))
            break
        folders.sort()
        if _NAME in files:
            found.append(Path(place, _NAME))
    return sorted(found)


def _section(path: Path, source: Source, problems: list[Problem]) -> Any:
    """Return the part of a file that holds hooks; None when there is none, or the file cannot be read."""
    try:
        data = read_plain(path, _FILE_LIMIT + 1)
        if len(data) > _FILE_LIMIT:
            raise ValueError(f"it has more than {_FILE_LIMIT} bytes")
        content = json.loads(data.decode("utf-8-sig"))
        if not isinstance(content, Mapping):
            raise ValueError(f"it must hold a mapping, not {type(content).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        problems.append(Problem(source.label, f"the file cannot be read: {error}"))
        return None
    if content.get("disableAllHooks") is True:
        return None
    if source.is_claude or "hooks" in content:
        return content.get("hooks")
    return content
