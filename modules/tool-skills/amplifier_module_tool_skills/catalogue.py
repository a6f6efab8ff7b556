"""Find the skills: every SKILL.md below the given folders, the first of a name counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Final

from amplifier_kit.front_matter import LONGEST, FrontMatterError, decoded, parse_front_matter
from amplifier_kit.struct import FrozenStruct, Struct
from amplifier_module_tool_skills.read import Content, ReadingError, read_head
from amplifier_module_tool_skills.roots import Root, Roots
from amplifier_module_tool_skills.skill import FILE, Skill, normal, read_skill

#: How deep, and in how many folders of one root, skills are looked for.
DEEPEST: Final = 8
MOST_FOLDERS: Final = 5000
#: How many files of a skill are named.
MOST_FILES: Final = 100

_NO_SKILLS_IN: Final = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__"})


#: Why a file below a folder must not be read, None when it may be.
Denied = Callable[[str, str], str | None]


class SkillError(Exception):
    """Say why a skill's text cannot be had; starts with file and line."""


class Text(FrozenStruct):
    """The text of a skill as the model gets it."""

    content: str
    total_bytes: int
    is_cut: bool = False


class Catalogue(Struct):
    """The skills of a session by name, and what is wrong with those that are not among them."""

    roots: Roots
    #: The policy check for each file before it is read; None without policies.
    denied: Denied | None = None
    skills: dict[str, Skill] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def scan(self) -> None:
        """Look again; what is wrong with one file is noted and hides no other."""
        skills: dict[str, Skill] = {}
        problems = list(self.roots.problems)
        for root in self.roots.folders:
            within = self.roots.within(root)
            for file in _files(root, within, problems):
                self._take(root, file, within, skills, problems)
        self.skills, self.problems = skills, problems

    def _take(
        self, root: Root, file: Path, within: list[Path] | None, skills: dict[str, Skill], problems: list[str]
    ) -> None:
        try:
            front = parse_front_matter(self._read(file, LONGEST + 3, within).head)
            skill = read_skill(front, file, root.path)
        except FrontMatterError as error:
            problems.append(f"{file}:{error.line}: {error}")
            return
        except ReadingError as error:
            problems.append(f"{file}:1: {error}")
            return
        first = skills.setdefault(skill.name, skill)
        if first is not skill:
            line = front.lines.get("name", 1)
            problems.append(f"{file}:{line}: the skill {skill.name!r} is also in {first.file}, which counts")

    def _read(self, file: Path, limit: int, within: list[Path] | None) -> Content:
        """Return the beginning of a file that the session lets the model have; raises ReadingError."""
        real = Path(os.path.realpath(file))
        # The user's own folders may hold links to where they keep a skill.
        places = [real.parent] if within is None else [place for place in within if real.is_relative_to(place)]
        if self.denied is None or not places:
            return read_head(file, limit, within)
        if (why := self.denied(str(real), str(places[0]))) is not None:
            raise ReadingError(f"is not given to the model: {why}")
        # What was decided on is what is read, whatever a link has been made to lead to meanwhile.
        return read_head(file, limit, [real])

    def find(self, name: str) -> Skill | None:
        """Return the skill of that name, None when there is none."""
        return self.skills.get(normal(name))

    def text(self, skill: Skill, limit: int) -> Text:
        """Return what stands below the front matter, at most `limit` bytes of the file; raise SkillError."""
        root = next((root for root in self.roots.folders if root.path == skill.source), None)
        within = self.roots.within(root) if root is not None else None
        try:
            found = self._read(skill.file, max(limit, LONGEST), within)
            return _text(found, limit)
        except FrontMatterError as error:
            raise SkillError(f"{skill.file}:{error.line}: {error}") from error
        except ReadingError as error:
            raise SkillError(f"{skill.file}:1: {error}") from error


def _text(found: Content, limit: int) -> Text:
    front = parse_front_matter(found.head)
    body = found.head[front.length :]
    room = max(limit - front.length, 0)
    is_cut = found.size > front.length + room
    if is_cut:
        body = body[:room]
        # To the end of a line; of one that is longer than all there is room for, to the end of a character.
        end = body.rfind(b"\n") + 1
        body = body[:end] if body[:end].strip() else body.decode("utf-8", "ignore").encode()
    first_line = 1 + found.head.count(b"\n", 0, front.length)
    return Text(decoded(body, first_line).strip("\n"), found.size, is_cut)


def _files(root: Root, within: list[Path] | None, problems: list[str]) -> Iterator[Path]:
    """Yield every SKILL.md below a root, each real folder once; links to folders are followed as far as they may."""
    seen: set[tuple[int, int]] = set()
    waiting = [(root.path, 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                continue
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError) as error:
            if depth == 0 and isinstance(error, NotADirectoryError):
                problems.append(f"{folder}: is not a folder")
            continue
        except OSError as error:
            problems.append(f"{folder}: cannot be searched: {error.strerror or error}")
            continue
        if not _is_within(folder, within):
            problems.append(f"{folder}: is a link that leads out of the project: it is not followed")
            continue
        seen.add((status.st_dev, status.st_ino))
        if len(seen) > MOST_FOLDERS:
            problems.append(f"{root.path}: has more than {MOST_FOLDERS} folders: the rest is not searched")
            return
        if any(entry.name == FILE for entry in entries):
            yield folder / FILE
        below = [folder / entry.name for entry in entries if entry.name not in _NO_SKILLS_IN and _is_folder(entry)]
        if depth < DEEPEST:
            waiting += [(path, depth + 1) for path in reversed(below)]


def _is_within(folder: Path, within: list[Path] | None) -> bool:
    real = Path(os.path.realpath(folder))
    return within is None or any(real.is_relative_to(place) for place in within)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def other_files(skill: Skill) -> tuple[list[str], int]:
    """Return the first files beside a SKILL.md as paths relative to it, and how many there are at least.

    Links are left out, and so are folders that hold a skill of their own.
    """
    names: list[str] = []
    total = 0
    for folder, folders, files in os.walk(skill.folder):
        here = Path(folder)
        is_deep = len(here.relative_to(skill.folder).parts) >= DEEPEST
        folders[:] = [] if is_deep else sorted(name for name in folders if _is_own(here / name))
        for name in sorted(files):
            path = here / name
            if path == skill.file or path.is_symlink():
                continue
            total += 1
            if len(names) < MOST_FILES:
                names.append(path.relative_to(skill.folder).as_posix())
        if total > MOST_FOLDERS:
            break
    return names, total


def _is_own(folder: Path) -> bool:
    return folder.name not in _NO_SKILLS_IN and not folder.is_symlink() and not os.path.lexists(folder / FILE)
