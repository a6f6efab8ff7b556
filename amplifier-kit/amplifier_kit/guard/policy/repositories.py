"""Programs that follow a repository's configuration, and whether they would run in the project's repository.

`git status` only looks, and yet runs what the configuration of its repository names. A rule that allows it is about the
project's repository: a repository inside of another folder, such as one that an archive has brought, is another matter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from amplifier_kit.guard.control_files import git_folders_of
from amplifier_kit.guard.policy.hazards import started
from amplifier_kit.guard.policy.programs import Command, Program, program_row
from amplifier_kit.guard.policy.segments import HOLE, Segment
from amplifier_kit.guard.policy.wrappers import changes_folder

#: Each marks the root of a repository.
_MARKERS: Final = (".git", ".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", ".fslckout", "_FOSSIL_")
#: With one of these words on a line, a command may run before another one that is written before it.
_LOOPS: Final = re.compile(r"\b(for|while|until|select)\b")
#: What is known only when the line runs.
_FILLED_IN: Final = re.compile(rf"[{HOLE}*?\[]")
#: Options of these builtins that change nothing about which folder it is.
_PLAIN_OPTIONS: Final = frozenset({"-L", "-P", "-e", "-@", "-n", "--"})
#: So much of a repository's configuration is looked at.
_MAX_CONFIG: Final = 1_000_000
#: Lines that may lead to more folders than these are not followed.
_MAX_FOLDERS: Final = 64


def mark_repositories(segments: list[Segment], line: str, folders: Iterable[str], project: str) -> list[Segment]:
    """Return the commands of a line, marked where a program would follow another repository than the project's.

    The line starts in one of `folders`. Where a `cd` leads is looked up on the disk. What cannot be known, such as a
    folder that does not exist yet, counts as another repository.
    """
    # In a folder that does not exist, nothing runs: rules are tried on their examples in one.
    if not any(map(_is_reader, segments)) or not os.path.isdir(project):
        return segments
    route, size = _Route(folders, has_loops=_LOOPS.search(line) is not None), 0
    if route.has_loops:
        while size < route.size <= _MAX_FOLDERS:
            size = route.size
            for segment in segments:
                route.follow(segment)
    marked: list[Segment] = []
    for segment in segments:
        route.follow(segment)
        reason = (route.problem(project) or route.contact_problem(segment, project)) if _is_reader(segment) else ""
        marked.append(segment._replace(elsewhere=f"`{segment.program}` {reason}") if reason else segment)
    return marked


def repository_of(folder: str) -> str | None:
    """Return what marks the repository that a program would find from a folder, or None when there is none.

    That is `.git` or the like beside the files, or the folder of a bare repository itself.
    """
    here = os.path.realpath(folder)
    while True:
        for name in _MARKERS:
            if os.path.lexists(marker := os.path.join(here, name)):
                return marker
        if _is_bare(here):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _is_bare(folder: str) -> bool:
    """Return whether git would take a folder itself for a repository."""
    has = {name: os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs", "commondir")}
    return has["HEAD"] and (has["commondir"] or (has["objects"] and has["refs"]))


def _is_reader(segment: Segment) -> bool:
    if not segment.words or HOLE in segment.words[0]:
        return False
    for words in started(segment.words):
        name = words[0].rpartition("/")[2].casefold().removesuffix(".exe") if words else ""
        row = program_row(name)
        if row is not None and row.follows_repository:
            return True
    return False


class _Route:
    """The folders that a line may be in, command by command."""

    def __init__(self, folders: Iterable[str], *, has_loops: bool) -> None:
        self.has_loops = has_loops
        self._now = dict.fromkeys(folders)
        #: Where it is when a command before an `&&` has failed.
        self._skipped: dict[str, None] = {}
        #: Where it is when a `cd` fails whose folder is there.
        self._stuck: dict[str, None] = {}
        self._visited: dict[str, None] = {}
        self._unknown = next((folder for folder in self._now if not os.path.isdir(folder)), "")

    @property
    def size(self) -> int:
        """How many folders it may be in."""
        return len(self._now)

    def follow(self, segment: Segment) -> None:
        """Go where a command leads, if it changes the folder."""
        joined = "" if self.has_loops else segment.joined
        if joined != "&&":
            self._now |= self._skipped
            self._skipped = {}
        if not changes_folder(segment.program):
            return
        operands = [word for word in (segment.words or ())[1:] if word not in _PLAIN_OPTIONS]
        before, has_moved, is_pushd = self._now, bool(self._visited), segment.program == "pushd"
        self._visited |= before
        match operands:
            case [place] if not place.startswith("-") and not _FILLED_IN.search(place) and segment.program != "popd":
                reached = self._reached(place)
            case [] if segment.program in ("cd", "chdir"):
                reached = self._reached("~")
            case _ if segment.program == "popd" or (operands == ["-"] and has_moved) or (is_pushd and not operands):
                reached = self._visited  # back to where it was
                joined = ""
            case _:
                reached = {}
        if not reached or len(before | reached) > _MAX_FOLDERS:
            self._unknown = self._unknown or segment.text
        if joined == "&&":
            self._skipped |= before
        else:
            self._stuck |= before
        self._now = reached if joined else before | reached

    def problem(self, project: str) -> str:
        """Return why a program that runs now may follow another repository than the project's, or an empty text."""
        if self._unknown:
            return f"would run in a folder that is not known yet: `{self._unknown[:60]}`"
        own, root = repository_of(project), os.path.realpath(project)
        for folder in self._now | self._stuck:
            place, found = os.path.realpath(folder), repository_of(folder)
            if found is not None and found == own and os.path.basename(found) in _MARKERS:
                continue
            if found is not None:
                return f"would run in {place}, and follow the configuration of the repository {found}"
            if own is not None or not f"{place}/".startswith(f"{root.rstrip('/')}/"):
                return f"would run in {place}, which is not in the project's repository"
        return ""

    def contact_problem(self, segment: Segment, project: str) -> str:
        """Return which repository on this machine a command of git contacts besides the project's, or an empty text.

        Its hooks and its configuration are run, by `git push` and by `git fetch`.
        """
        own = repository_of(project)
        for words in started(segment.words or ()):
            if not words or words[0].rpartition("/")[2].casefold() != "git":
                continue
            for name in contacted(*git_command(words[1:])):
                if not may_be_path(name) or _is_remote(name, project):
                    continue
                if _is_other(name, self._now | self._stuck, own):
                    shown = name.replace(HOLE, "…")
                    return f"would contact the repository {shown}, and run what its configuration and hooks name"
        return ""

    def _reached(self, target: str) -> dict[str, None]:
        """Return the folders that a target leads to."""
        found: dict[str, None] = {}
        for start in [*self._now, *_search_path(target)]:
            for name in {target, os.path.expanduser(target)}:
                joined = os.path.join(start, name)
                # The shell takes `link/..` for the folder that the link is in, unless an option says otherwise.
                for place in (os.path.normpath(joined), os.path.realpath(joined)):
                    if os.path.isdir(place):
                        found[place] = None
        return found


def _is_other(name: str, folders: Iterable[str], own: str | None) -> bool:
    """Return whether a name leads git to a folder or file that is not the project's repository itself."""
    if HOLE in name:
        return True
    places = [os.path.realpath(os.path.join(folder, name)) for folder in folders]
    if own is not None and {os.path.join(place, ".git") for place in places} == {own}:
        return False
    exists = any(os.path.lexists(place + ending) for place in places for ending in ("", ".git", ".bundle"))
    return is_path_for_sure(name) or exists


def _is_remote(name: str, project: str) -> bool:
    """Return whether the configuration of the project's repository has a remote of this name."""
    for folder in git_folders_of(project):
        try:
            with open(os.path.join(folder, "config"), encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(_MAX_CONFIG)
        except OSError:
            continue
        if re.search(rf'^\s*\[\s*remote\s+"{re.escape(name)}"\s*\]', text, re.MULTILINE | re.IGNORECASE):
            return True
    return False


def _search_path(target: str) -> list[str]:
    """Return where else the shell looks for a folder, if the user's environment says so."""
    if target.startswith(("/", "./", "../", "~")) or target in (".", ".."):
        return []
    return [folder for folder in os.environ.get("CDPATH", "").split(":") if os.path.isabs(folder)]


# --- the words of a git line ---

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: `helper::address`: git runs `git-remote-helper`.
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]+::")


def git_command(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the command of a git line, given the words after `git`, and its own words; nothing when it has none."""
    valued, is_value = _git().valued_options, False
    for index, word in enumerate(words):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in valued
        else:
            return word, words[index + 1 :]
    return "", ()


def contacted(command: str, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that name the repository which a command of git contacts; none when it is the configured one."""
    row = _git().commands.get(command)
    if row is None or not row.contacts:
        return
    operands, is_value = [], ""
    for word in words:
        if is_value:
            if is_value == "--repo":
                yield word
            is_value = ""
        elif word.startswith("-") and word not in ("-", "--"):
            name, equals, value = word.partition("=")
            if len(name) > 4 and "--repo".startswith(name) and equals:
                yield value
            is_value = "" if equals else _with_value(row, name)
        elif word != "--":
            operands.append(word)
    if (within := row.contacts_after) and (not operands or operands.pop(0) not in within):
        return
    # All remotes of `git remote update`; behind a repository of the others are references, or the folder of a clone.
    yield from operands if command == "remote" else operands[:1]
    if command != "clone" and command != "submodule":
        yield from (word for word in operands[1:] if _is_written_as_path(word))


def may_be_path(word: str) -> bool:
    """Return whether git may take what a command contacts for a folder, or run a helper for it."""
    if _URL.match(word):
        return word[:5].casefold() == "file:"
    before, colon, _ = word.partition(":")
    return bool(_HELPER.match(word)) or not colon or "/" in before or HOLE in before


def is_path_for_sure(word: str) -> bool:
    """Return whether a word that may be a path cannot be the name of a remote without a slash."""
    return _is_written_as_path(word) or "/" in word


def _is_written_as_path(word: str) -> bool:
    is_helper = _HELPER.match(word) is not None or word[:5].casefold() == "file:"
    return is_helper or word in (".", "..") or word.startswith(("./", "../", "/", "~"))


def _with_value(row: Command, name: str) -> str:
    """Return the option whose value is the next word, or nothing."""
    if name.startswith("--"):
        return (
            next((option for option in _git().contact_valued_options if option.startswith(name)), "")
            if len(name) > 3
            else ""
        )
    letters = row.contact_valued
    # Behind a letter with a value is the value, where the word has more.
    found = next((place for place, letter in enumerate(name) if letter in letters), -1)
    return name if found == len(name) - 1 and found > 0 else ""


def _git() -> Program:
    row = program_row("git")
    assert row is not None, "the table of programs has a row for git"
    return row
