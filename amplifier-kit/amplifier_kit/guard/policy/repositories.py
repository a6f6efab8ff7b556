"""Programs that follow a repository's configuration, and whether they would run in the project's repository.

`git status` only looks, and yet runs programs that the configuration of its repository names. A rule that allows it is
about the project's repository: one inside of another folder, such as from an unpacked archive, is another matter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from amplifier_kit.guard.control_files import git_folders_of
from amplifier_kit.guard.policy.hazards import started
from amplifier_kit.guard.policy.programs import Program, program_row
from amplifier_kit.guard.policy.segments import HOLE, Segment, shortened
from amplifier_kit.guard.policy.wrappers import changes_folder

#: Each marks the root of a repository.
_MARKERS: Final = (".git", ".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", ".fslckout", "_FOSSIL_")
#: With one of these words on a line, a command may run before another one that is written before it.
_LOOPS: Final = re.compile(r"\b(for|while|until|select)\b")
#: Known only when the line runs.
_FILLED_IN: Final = re.compile(rf"[{HOLE}*?\[]")
#: Options of the builtins that change the folder which do not affect where it leads.
_PLAIN_OPTIONS: Final = frozenset({"-L", "-P", "-e", "-@", "-n", "--"})
#: How much of a repository's configuration is read, in characters.
_MAX_CONFIG: Final = 1_000_000
#: Lines that may lead to more folders than these are not followed.
_MAX_FOLDERS: Final = 64
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: `helper::address`: git runs `git-remote-helper`.
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]+::")


def mark_repositories(segments: list[Segment], line: str, folders: Iterable[str], project: str) -> list[Segment]:
    """Return the commands of a line, marked where a program would follow another repository than the project's.

    The line starts in one of `folders`. Where a `cd` leads is looked up on the disk. An unknown folder, such as one
    that does not exist yet, counts as another repository.
    """
    # In a folder that does not exist, nothing runs: rules are tried on their examples in one.
    if not any(map(_follows_repository, segments)) or not os.path.isdir(project):
        return segments
    route, size = _Route(folders, has_loops=_LOOPS.search(line) is not None), 0
    while route.has_loops and size < len(route.now) <= _MAX_FOLDERS:
        size = len(route.now)
        for segment in segments:
            route.follow(segment)
    marked: list[Segment] = []
    for segment in segments:
        route.follow(segment)
        if _follows_repository(segment) and (reason := route.problem(segment, project)):
            segment = segment._replace(elsewhere=f"`{segment.program}` {reason}")
        marked.append(segment)
    return marked


def repository_of(folder: str) -> str | None:
    """Return the mark of the repository that a program would find from a folder; None outside of repositories.

    That is `.git` or the like beside the files, or the folder of a bare repository itself.
    """
    here = os.path.realpath(folder)
    while True:
        for name in _MARKERS:
            if os.path.lexists(marker := os.path.join(here, name)):
                return marker
        has_head, *has_both, has_common = (
            os.path.lexists(os.path.join(here, name)) for name in ("HEAD", "objects", "refs", "commondir")
        )
        if has_head and (has_common or all(has_both)):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def git_command(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the command of a git line, given the words after `git`, and its own words; nothing when it has none."""
    is_value = False
    for index, word in enumerate(words):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in _git().valued_options
        else:
            return word, words[index + 1 :]
    return "", ()


def _follows_repository(segment: Segment) -> bool:
    if not segment.words or HOLE in segment.words[0]:
        return False
    names = (words[0].rpartition("/")[2].casefold().removesuffix(".exe") for words in started(segment.words) if words)
    return any(row.follows_repository for row in map(program_row, names) if row is not None)


class _Route:
    """The folders that a line may be in, command by command."""

    def __init__(self, folders: Iterable[str], *, has_loops: bool) -> None:
        self.has_loops = has_loops
        self.now = dict.fromkeys(folders)
        #: Where it is if a command before an `&&` fails.
        self._skipped: dict[str, None] = {}
        #: Where it is if a `cd` to an existing folder fails.
        self._stuck: dict[str, None] = {}
        self._visited: dict[str, None] = {}
        self._unknown = next((folder for folder in self.now if not os.path.isdir(folder)), "")

    def follow(self, segment: Segment) -> None:
        """Go where a command leads, if it changes the folder."""
        joined = "" if self.has_loops else segment.joined
        if joined != "&&":
            self.now |= self._skipped
            self._skipped = {}
        if not changes_folder(segment.program):
            return
        operands = [word for word in (segment.words or ())[1:] if word not in _PLAIN_OPTIONS]
        before, has_moved, is_pushd = self.now, bool(self._visited), segment.program == "pushd"
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
        self.now = reached if joined else before | reached

    def problem(self, segment: Segment, project: str) -> str:
        """Return why a command that runs now may follow another repository than the project's, or an empty text."""
        if self._unknown:
            return f"would run in a folder that is not known yet: `{shortened(self._unknown)}`"
        own, root = repository_of(project), os.path.realpath(project)
        for folder in self.now | self._stuck:
            place, found = os.path.realpath(folder), repository_of(folder)
            if found is not None and found == own and os.path.basename(found) in _MARKERS:
                continue
            if found is not None:
                return f"would run in {place}, and follow the configuration of the repository {found}"
            if own is not None or not f"{place}/".startswith(f"{root.rstrip('/')}/"):
                return f"would run in {place}, which is not in the project's repository"
        # A repository on this machine that git contacts has its hooks and its configuration run as well.
        for words in started(segment.words or ()):
            is_git = bool(words) and words[0].rpartition("/")[2].casefold() == "git"
            for name in _contacted(*git_command(words[1:])) if is_git else ():
                if _may_be_path(name) and not _is_remote(name, project) and self._is_other(name, own):
                    shown = name.replace(HOLE, "…")
                    return (
                        f"would contact the repository {shown}, and run programs that its configuration and hooks name"
                    )
        return ""

    def _is_other(self, name: str, own: str | None) -> bool:
        """Return whether a name leads git to a folder or file other than the project's repository itself."""
        if HOLE in name:
            return True
        places = [os.path.realpath(os.path.join(folder, name)) for folder in self.now | self._stuck]
        if own is not None and {os.path.join(place, ".git") for place in places} == {own}:
            return False
        exists = any(os.path.lexists(place + ending) for place in places for ending in ("", ".git", ".bundle"))
        return exists or "/" in name or _is_written_as_path(name)

    def _reached(self, target: str) -> dict[str, None]:
        """Return the folders that a target leads to."""
        search = [] if re.match(r"/|~|\.\.?(/|\Z)", target) else os.environ.get("CDPATH", "").split(":")
        found: dict[str, None] = {}
        for start in [*self.now, *filter(os.path.isabs, search)]:
            for name in {target, os.path.expanduser(target)}:
                joined = os.path.join(start, name)
                # The shell takes `link/..` for the folder that the link is in, unless an option says otherwise.
                for place in (os.path.normpath(joined), os.path.realpath(joined)):
                    if os.path.isdir(place):
                        found[place] = None
        return found


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


def _contacted(command: str, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that name the repository which a command of git contacts; none when it is the configured one."""
    row = _git().commands.get(command)
    if row is None or row.contacts is None:
        return
    operands: list[str] = []
    valued = ""  # the option whose value is the next word
    for word in words:
        if valued:
            if valued == "--repo":
                yield word
            valued = ""
        elif word.startswith("-") and word not in ("-", "--"):
            name, equals, value = word.partition("=")
            if len(name) > 4 and "--repo".startswith(name) and equals:
                yield value
            if name.startswith("--"):
                options = _git().contact_valued_options if len(name) > 3 and not equals else ()
                valued = next((option for option in options if option.startswith(name)), "")
            elif not equals:
                # After a letter with a value, the rest of the word is the value, if there is any.
                letter = next((place for place, letter in enumerate(name) if letter in row.contact_valued), -1)
                valued = name if letter == len(name) - 1 and letter > 0 else ""
        elif word != "--":
            operands.append(word)
    if row.contacts_after and (not operands or operands.pop(0) not in row.contacts_after):
        return
    yield from operands if row.contacts == "all" else operands[:1]
    if row.contacts == "first and paths":
        yield from filter(_is_written_as_path, operands[1:])


def _may_be_path(word: str) -> bool:
    """Return whether git may take a word for a folder to contact, or run a helper for it."""
    if _URL.match(word):
        return word[:5].casefold() == "file:"
    before, colon, _ = word.partition(":")
    return bool(_HELPER.match(word)) or not colon or "/" in before or HOLE in before


def _is_written_as_path(word: str) -> bool:
    is_helper = _HELPER.match(word) is not None or word[:5].casefold() == "file:"
    return is_helper or word in (".", "..") or word.startswith(("./", "../", "/", "~"))


def _git() -> Program:
    row = program_row("git")
    assert row is not None, "the table of programs has a row for git"
    return row
