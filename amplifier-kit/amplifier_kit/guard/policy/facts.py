"""What an action would do, as far as it can be known before it runs, and the parts of it that rules judge."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.policy.paths import PathError, resolved, spelled
from amplifier_kit.guard.policy.segments import HOLE, MAX_LENGTH, Segment, line_forms, spans_commands
from amplifier_kit.named_tuple import NamedTuple

#: The action of each published tool, by its name. A tool that is not here is judged as `tool.<name>`, which no default
#: allows.
KNOWN_TOOLS: Final[Mapping[str, str]] = {
    "read_file": "filesystem.read",
    "grep": "filesystem.read",
    "glob": "filesystem.read",
    "write_file": "filesystem.write",
    "edit_file": "filesystem.write",
    "apply_patch": "filesystem.write",
    "bash": "process.exec",
    "web_fetch": "network.fetch",
    "web_search": "network.fetch",
    "task": "session.spawn",
    "delegate": "session.spawn",
    "todo": "tool.todo",
    "load_skill": "tool.load_skill",
}

# The names under which tools take their input.
_COMMANDS: Final = ("command", "cmd")
_PATHS: Final = (
    "path", "paths", "file_path", "file_paths", "filepath", "filename", "file", "files", "directory", "dir", "folder",
    "notebook_path", "source", "destination", "target_file", "old_path", "new_path", "root",
)  # fmt: skip
#: The folder that a command runs in.
_FOLDERS: Final = ("working_dir", "working_directory", "workdir", "cwd", "directory", "dir", "folder")
_URLS: Final = ("url", "urls", "uri")
_HOSTS: Final = ("host", "hosts", "hostname", "domain")
#: Files that a tool writes on the side.
_WRITES: Final = ("save_to_file", "output_file", "output_path")

_PATCHED: Final = r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to):[ \t]*(.+?)[ \t]*$"
_SURROGATES: Final = r"[\ud800-\udfff]"
_WILD: Final = r"[*?\[{]"


class Facts(NamedTuple):
    """The parts of an action that rules are matched with.

    `commands` is None for actions that run no command. `paths` are real paths (links followed); `spelled` are the same
    as they were written, which only denying and asking rules see. `reads` and `writes` are files that the action
    touches besides: redirects of a shell line, a download's file. `lines` are shell lines of more than one command, as
    they were written. With a `problem`, nothing allows the action.
    """

    action: str
    tool: str = ""
    commands: tuple[Segment, ...] | None = None
    paths: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    problem: str = ""
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    spelled: tuple[Path, ...] = ()
    lines: tuple[str, ...] = ()


def facts(action: str, details: Mapping[str, Any], project: Path) -> Facts:
    """Return what an action would do; never raises: whatever cannot be understood is the `problem`.

    `details["command" | "path" | "host"]` win over `details["tool_input"]` with its values under the names tools use;
    only its top level is looked at. Relative paths are those of `details["working_dir"]`, else of the project.
    """
    found = _Finder(action, details, project)
    try:
        found.look()
    except (ValueError, OSError, RecursionError) as error:
        found.problems.append(f"it cannot be parsed: {error}")
    lists = {name: tuple(getattr(found, name)) for name in ("paths", "hosts", "reads", "writes", "spelled", "lines")}
    commands = None if found.commands is None else tuple(found.commands)
    return Facts(action, found.tool, commands, problem="; ".join(found.problems), **lists)


class _Finder:
    def __init__(self, action: str, details: Mapping[str, Any], project: Path) -> None:
        given, tool, base = (details.get(key) for key in ("tool_input", "tool_name", "working_dir"))
        self.action = action
        self.project = project
        self.details = details
        self.given: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        self.tool = tool if isinstance(tool, str) else ""
        self.base = project / base if isinstance(base, str | Path) and base else project
        # A tool may ignore an input that names a folder: then it runs in the one folder or in the other.
        self.bases = [self.base]
        self.problems: list[str] = []
        self.commands: list[Segment] | None = None
        self.paths: dict[Path, None] = {}
        self.spelled: dict[Path, None] = {}
        self.reads: dict[Path, None] = {}
        self.writes: dict[Path, None] = {}
        self.hosts: dict[str, None] = {}
        self.lines: dict[str, None] = {}

    def look(self) -> None:
        for name in _FOLDERS:
            if self.given.get(name) is not None:
                self._folder(name, self.given[name])
        explicit = [name for name in ("command", "path", "host") if self.details.get(name) is not None]
        for name in explicit:
            self._values(name, self.details[name])
        if not explicit:
            for name in (*_COMMANDS, *_PATHS, *_URLS, *_HOSTS, *_WRITES, "patch"):
                if self.given.get(name) is not None:
                    self._values(name, self.given[name])
            if self.tool in ("grep", "glob"):
                self._search()
        if self.action == "process.exec" and self.commands is None:
            self.problems.append("it names no command")

    def _values(self, name: str, value: object) -> None:
        if name in _COMMANDS:
            self._command(value)
            return
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, Path):
                text = str(text)
            if not isinstance(text, str):
                self.problems.append(f"{name} is {type(text).__name__}, not a text")
            elif name == "patch":
                self._patch(text)
            elif name in _URLS or "://" in text:
                self._host(text, is_url=True)
            elif name in _HOSTS:
                self._host(text, is_url=False)
            else:
                self._path(text, self.writes if name in _WRITES else self.paths)

    def _command(self, value: object) -> None:
        from amplifier_kit.guard.policy.repositories import mark_repositories
        from amplifier_kit.guard.policy.shell import parse_line

        self.commands = self.commands or []
        if isinstance(value, list | tuple) and value and all(isinstance(word, str) for word in value):
            value = shlex.join(value)  # no shell sees these words: quoted, they are judged as they are
        if not isinstance(value, str):
            self.problems.append(f"the command is {type(value).__name__}, not a text")
            return
        if HOLE in value or re.search(_SURROGATES, value):
            self.problems.append("the command contains characters that no command has")
            return
        segments = mark_repositories(parse_line(value), value, map(str, self.bases), str(self.project))
        if spans_commands(value) and len(value) <= MAX_LENGTH:
            self.lines[value] = None
        if not segments:
            self.problems.append("it names no command")
        self.commands += [self._redirected(segment) for segment in segments]

    def _folder(self, name: str, value: object) -> None:
        if isinstance(value, str | Path) and HOLE not in str(value):
            self.bases.append(self.base / os.path.expanduser(value))
        elif any(self.given.get(key) is not None for key in _COMMANDS):
            self.problems.append(f"{name} is {type(value).__name__}, not the path of a folder")

    def _redirected(self, segment: Segment) -> Segment:
        """Record the files that a command's redirects open; an unknown one makes the command opaque."""
        for redirect in segment.redirects:
            if redirect.target is None:
                segment = segment.opaque("a redirect's file is known only when it runs")
                continue
            try:
                for base in self.bases:
                    self._place(redirect.target, self.reads if redirect.kind == "read" else self.writes, base)
            except PathError as error:
                unknown = (*segment.redirects, redirect._replace(target=None))
                segment = segment.opaque(str(error))._replace(redirects=unknown)
        return segment

    def _path(self, text: str, into: dict[Path, None]) -> None:
        try:
            self._place(text, into, self.base)
        except PathError as error:
            self.problems.append(str(error))

    def _place(self, text: str, into: dict[Path, None], base: Path) -> None:
        self.spelled[spelled(text, base)] = None
        into[resolved(text, base)] = None

    def _host(self, text: str, *, is_url: bool) -> None:
        from amplifier_kit.guard.network import MalformedError, canonical_host, canonical_url_host

        try:
            self.hosts[canonical_url_host(text) if is_url else canonical_host(text)] = None
        except MalformedError as error:
            self.problems.append(str(error))
            if error.meant is not None:
                self.hosts[error.meant] = None

    def _patch(self, text: str) -> None:
        names = re.findall(_PATCHED, text)
        if not names:
            self.problems.append("the patch names no file")
        for name in names:
            self._path(name, self.paths)

    def _search(self) -> None:
        """A search looks below its folder; a glob's pattern may lead out of it."""
        if not self.paths and not self.problems:
            self._path(str(self.base), self.paths)
        pattern = self.given.get("pattern")
        if self.tool == "glob" and isinstance(pattern, str):
            plain = re.split(_WILD, pattern, maxsplit=1)[0]
            start = plain if plain == pattern else plain.rpartition("/")[0] + "/" * plain.startswith("/")
            if ".." in re.sub(_WILD, "/", pattern[len(plain) :]).split("/"):
                self.problems.append(f"the pattern {pattern!r} goes up after a wildcard")
            for folder in list(self.paths) if start else ():
                self._path(start if start.startswith(("/", "~")) else str(folder / start), self.paths)


class Part(NamedTuple):
    """One command, one path or one host, or an action that has none of them.

    `actions` are the names under which a rule may mean it: a file that a command writes is written and run.
    `is_refused` means that nothing allows it; a `problem` on a command means that no rule allows it by its words.
    `lines` are all the spellings of a command that restricting rules are matched with.
    With `is_spelling` it is another part's path as it was written, or the line of several commands, which only rules
    that restrict look at.
    """

    actions: tuple[str, ...]
    tool: str
    what: str
    segment: Segment | None = None
    path: Path | None = None
    host: str | None = None
    problem: str = ""
    is_refused: bool = False
    is_spelling: bool = False
    lines: tuple[str, ...] = ()

    @property
    def is_line(self) -> bool:
        """Whether it is a line of several commands: only rules that name more than one are about it."""
        return self.is_spelling and self.segment is not None

    @property
    def is_uncertain(self) -> bool:
        """Whether it may turn out to be something else when it runs."""
        return self.segment is not None and self.segment.has_holes


def parts_of(facts: Facts) -> list[Part]:
    """Return every part of an action; at least one."""
    found = list(_parts(facts))
    if facts.problem or not found:
        what = facts.tool or facts.action
        found.append(Part((facts.action,), facts.tool, what, problem=facts.problem, is_refused=bool(facts.problem)))
    return found


def _parts(facts: Facts) -> Iterator[Part]:
    own, tool = (facts.action,), facts.tool
    for segment in facts.commands or ():
        if segment.words or segment.assignments or segment.is_opaque:
            lines = segment.spellings()
            yield Part(own, tool, segment.text, segment=segment, problem=segment.problem, lines=lines)
    for line in facts.lines:
        yield Part(own, tool, line, segment=Segment(None, line), is_spelling=True, lines=line_forms(line))
    reading, writing = ("filesystem.read", *own), ("filesystem.write", *own)
    for actions, paths in ((own, facts.paths), (reading, facts.reads), (writing, facts.writes)):
        for path in paths:
            yield Part(actions, tool, str(path), path=path)
    touched = {*facts.paths, *facts.reads, *facts.writes}
    any_of = (*reading[: bool(facts.reads)], *writing[: bool(facts.writes)], *own)
    for path in facts.spelled:
        if path not in touched:
            yield Part(any_of, tool, str(path), path=path, is_spelling=True)
    for host in facts.hosts:
        yield Part(own, tool, host, host=host)
