"""What the words of a git line mean: its command, the repository that it contacts, and the programs that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amplifier_kit.guard.policy.programs import Program, find_program
from amplifier_kit.guard.policy.segment import HOLE

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
    """Tell whether git may take what a command contacts for a folder, or run a helper for it."""
    if _URL.match(word):
        return word[:5].casefold() == "file:"
    before, colon, _ = word.partition(":")
    return bool(_HELPER.match(word)) or not colon or "/" in before or HOLE in before


def is_path_for_sure(word: str) -> bool:
    """Tell whether a word that may be a path cannot be the name of a remote without a slash."""
    return _is_written_as_path(word) or "/" in word


def _is_written_as_path(word: str) -> bool:
    is_helper = _HELPER.match(word) is not None or word[:5].casefold() == "file:"
    return is_helper or word in (".", "..") or word.startswith(("./", "../", "/", "~"))


def _with_value(row: Program, name: str) -> str:
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
    row = find_program("git")
    assert row is not None, "the table of programs has a row for git"
    return row
