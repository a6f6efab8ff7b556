"""Read the hooks of one file; an entry that is wrong is reported, and is the only one that is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_core.named_tuple import NamedTuple
from amplifier_kit.config import read_config
from amplifier_kit.struct import FrozenStruct
from amplifier_module_hook_shell.config import HookOptions, Policy
from amplifier_module_hook_shell.hook_events import MOMENTS, Moment, named
from amplifier_module_hook_shell.matcher import Matcher, MatcherError

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
    moment: Moment
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
        moment = named(key) if isinstance(key, str) else None
        if moment is None:
            found.problems.append(Problem(where, f"unknown event {key!r}: expected one of {', '.join(MOMENTS)}"))
        elif not isinstance(groups, list):
            found.problems.append(Problem(where, f"must be a list, got {_kind(groups)}"))
        else:
            for index, group in enumerate(groups):
                number += 1
                _read_group(group, f"{where}.{index}", moment, source, number, found)
    return found


def _read_group(group: Any, where: str, moment: Moment, source: Source, number: int, found: Entries) -> None:
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
        found.hooks.append(Hook(name=name, moment=moment, matcher=matcher, source=source, group=together, **facts))


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
