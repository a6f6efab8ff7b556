"""Find the hooks of a session in its config and in files, once: later changes are for the next session.

A session could otherwise be made to run what it has written itself. Files of the project count only when its folder is
trusted: opening another person's folder is not consent to run its commands."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_kit.config import read_config
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct, Struct
from amplifier_module_hook_shell.config import HookOptions, Policy, ShellHooksConfig
from amplifier_module_hook_shell.hook_events import HOOK_EVENTS, HookEvent, Matcher, MatcherError, named

# --- entries ---

#: A longer command or prompt belongs in a file.
_TEXT_LIMIT: Final = 100_000


class Problem(NamedTuple):
    """Something that is wrong with an entry, or with a whole file."""

    hook: str
    error: str


class Source(FrozenStruct):
    """Where hooks come from."""

    #: How it is called in events and reports.
    label: str
    #: The folder of the file; what hooks find beside themselves is there.
    folder: Path | None = None
    #: Why its hooks do not run; empty when they do.
    refusal: str = ""
    #: Whether the project brings it: its hooks may do no more than commands may, and run in the sandbox.
    is_projects: bool = False
    #: Whether its hooks were written for another agent and get that agent's names of tools.
    is_claude: bool = False


class Hook(FrozenStruct):
    """One thing to run."""

    name: str
    hook_event: HookEvent
    matcher: Matcher
    kind: Literal["command", "prompt"]
    text: str
    source: Source
    timeout: float | None = None
    on_timeout: Policy | None = None
    on_error: Policy | None = None
    #: Hooks of the same number run at the same time; None: by itself.
    group: int | None = field(default=None, compare=False)


class Entries(FrozenStruct):
    """What a file holds."""

    hooks: list[Hook]
    problems: list[Problem]


def read_entries(section: Any, source: Source, first_group: int = 0) -> Entries:
    """Return the hooks of a `hooks` section in the order they are written, and what is wrong with the others."""
    found = Entries([], [])
    if not isinstance(section, Mapping):
        found.problems.append(Problem(source.label, f"'hooks' must be a mapping, got {_kind(section)}"))
        return found
    number = first_group
    for key, groups in section.items():
        where = f"{source.label}#{key}"
        hook_event = named(key) if isinstance(key, str) else None
        if hook_event is None:
            found.problems.append(Problem(where, f"unknown event {key!r}: expected one of {', '.join(HOOK_EVENTS)}"))
        elif not isinstance(groups, list):
            found.problems.append(Problem(where, f"must be a list, got {_kind(groups)}"))
        else:
            for index, group in enumerate(groups):
                number += 1
                _read_group(group, f"{where}.{index}", hook_event, source, number, found)
    return found


def _read_group(group: Any, where: str, hook_event: HookEvent, source: Source, number: int, found: Entries) -> None:
    try:
        matcher = _matcher_of(group)
        is_parallel = group.get("parallel", False)
        if not isinstance(is_parallel, bool):
            raise ValueError(f"'parallel' must be true or false, got {is_parallel!r}")
        entries = group.get("hooks")
        if not isinstance(entries, list):
            raise ValueError(f"'hooks' must be a list, got {_kind(entries)}")
    except ValueError as error:
        found.problems.append(Problem(where, str(error)))
        return
    for hook in _read_hooks(entries, where, found):
        name, facts = hook
        together = number if is_parallel else None
        found.hooks.append(
            Hook(name=name, hook_event=hook_event, matcher=matcher, source=source, group=together, **facts)
        )


def _read_hooks(entries: list[Any], where: str, found: Entries) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, entry in enumerate(entries):
        name = f"{where}.{index}"
        try:
            yield name, _facts_of(entry)
        except ValueError as error:
            found.problems.append(Problem(name, str(error).removeprefix("hook-shell: ")))


def _matcher_of(group: Any) -> Matcher:
    if not isinstance(group, Mapping):
        raise ValueError(f"must be a mapping with 'hooks', got {_kind(group)}")
    text = group.get("matcher")
    if text is not None and not isinstance(text, str):
        raise ValueError(f"'matcher' must be a text, got {_kind(text)}")
    try:
        return Matcher(text or "")
    except MatcherError as error:
        raise ValueError(f"'matcher': {error}") from error


def _facts_of(entry: Any) -> dict[str, Any]:
    """Return what an entry says; raise ValueError for the first thing that is wrong with it."""
    if not isinstance(entry, Mapping):
        raise ValueError(f"must be a mapping, got {_kind(entry)}")
    kind = entry.get("type", "command")
    if kind not in ("command", "prompt"):
        raise ValueError(f"'type' must be 'command' or 'prompt', got {kind!r}")
    if "if" in entry:
        raise ValueError("'if' is not understood here; let the hook itself look into tool_input")
    text = entry.get(kind)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{kind!r} must be a text that is not blank, got {_kind(text)}")
    if len(text) > _TEXT_LIMIT or "\0" in text:
        raise ValueError(f"{kind!r} must have no null character and at most {_TEXT_LIMIT} characters")
    given = {key: entry.get(key) for key in HookOptions.model_fields}
    options = read_config(HookOptions, given, module="hook-shell")
    return {"kind": kind, "text": text, **dict(options)}


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


# --- files ---

#: Larger files are refused.
_FILE_LIMIT: Final = 1024 * 1024
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


class FoundHooks(Struct):
    """What was found, in the order in which it runs: first what the config says, then what files say."""

    configured: list[Hook] = field(default_factory=list)
    filed: list[Hook] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    #: From where on the groups of the next file are numbered.
    _groups: int = 0

    @classmethod
    def of_config(cls, settings: ShellHooksConfig, trust: Trust) -> FoundHooks:
        """Return what the config of the module says; no file is read."""
        found = cls()
        if settings.hooks:
            refusal = "" if trust.config else CONFIG_NOT_TRUSTED
            source = Source("config", refusal=refusal, is_projects=trust.is_config_of_project)
            found._take(settings.hooks, source, found.configured)
        return found

    @classmethod
    def read(cls, settings: ShellHooksConfig, project: Path, home: Path | None, trust: Trust) -> FoundHooks:
        """Read every file there is; never raises for what is in them. Blocks: files may be on a slow disk."""
        found = cls.of_config(settings, trust)
        seen: set[str] = set()
        for path, source in _files(settings, project, home, trust):
            real = os.path.realpath(path)
            if real in seen:
                continue  # one file that is reached by two ways
            seen.add(real)
            section = _section(path, source, found.problems)
            if section is not None:
                found._take(section, source, found.filed)
        return found

    def _take(self, section: Any, source: Source, hooks: list[Hook]) -> None:
        entries = read_entries(section, source, self._groups)
        self._groups += _MOST_GROUPS
        if not source.refusal:
            hooks += entries.hooks
            self.problems += entries.problems
        elif entries.hooks:
            events = list(dict.fromkeys(hook.hook_event.name for hook in entries.hooks))
            self.refused.append(Refused(source.label, events, len(entries.hooks), source.refusal))


def _files(settings: ShellHooksConfig, project: Path, home: Path | None, trust: Trust) -> Iterator[tuple[Path, Source]]:
    """Yield the files in the order in which their hooks run; the user's come first, even if listed again."""
    if home is not None:
        for path in _hooks_files(home / "hooks"):
            yield path, Source(f"home/{path.relative_to(home).as_posix()}", path.parent)
    for given in settings.files:
        path = project / os.path.expanduser(given)
        is_inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(project))
        is_projects = is_inside or trust.is_config_of_project
        yield path, Source(given, path.parent, "" if trust.config else CONFIG_NOT_TRUSTED, is_projects)
    refusal = "" if trust.project else NOT_TRUSTED
    for path in _hooks_files(project / ".amplifier" / "hooks"):
        yield path, Source(path.relative_to(project).as_posix(), path.parent, refusal, is_projects=True)
    if settings.claude_settings:
        for name in ("settings.json", "settings.local.json"):
            path = project / ".claude" / name
            if path.exists():
                yield path, Source(f".claude/{name}", path.parent, refusal, is_projects=True, is_claude=True)


def _hooks_files(folder: Path) -> list[Path]:
    """Return the files below a folder, sorted; links to folders are not followed, so that there is an end."""
    return sorted(Path(place, _NAME) for place, _, files in os.walk(folder) if _NAME in files)


def _section(path: Path, source: Source, problems: list[Problem]) -> Any:
    """Return the part of a file that holds hooks; None when there is none, or the file cannot be read."""
    try:
        content = json.loads(read_regular(path, _FILE_LIMIT).decode("utf-8-sig"))
        if not isinstance(content, Mapping):
            raise ValueError(f"it must hold a mapping, not {type(content).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problems.append(Problem(source.label, f"the file cannot be read: {reason}"))
        return None
    if content.get("disableAllHooks") is True:
        return None
    if source.is_claude or "hooks" in content:
        return content.get("hooks")
    return content
