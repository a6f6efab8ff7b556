"""What the words of a git line mean: its command, the repository that it contacts, and the programs that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amplifier_kit.guard.policy.segment import GIT_VALUED, HOLE

_STRATEGIES: Final = frozenset({"ort", "recursive", "resolve", "octopus", "ours", "subtree"})
#: Commands that take a strategy by `--strategy`, and those for which `-s` means the same.
_WITH_STRATEGY: Final = frozenset({"merge", "pull", "rebase", "cherry-pick", "revert"})
_SHORT_STRATEGY: Final = frozenset({"merge", "pull", "rebase"})
#: Letters that have a value behind them: what follows in the same word is not an option.
_VALUED_LETTERS: Final = "mFXSjoCxO"
#: Commands whose first operand is a repository, with the words before it where the command has commands of its own.
_CONTACTS: Final[dict[str, tuple[str, ...]]] = {
    "clone": (),
    "fetch": (),
    "fetch-pack": (),
    "ls-remote": (),
    "pull": (),
    "push": (),
    "remote": ("show", "update", "prune"),
    "send-pack": (),
    "submodule": ("add",),
}
#: Options of these whose value is the next word.
_VALUED: Final = (
    "--branch", "--bundle-uri", "--cleanup", "--config", "--deepen", "--depth", "--filter", "--jobs", "--name",
    "--negotiation-include", "--negotiation-restrict", "--negotiation-tip", "--origin", "--push-option",
    "--recurse-submodules-default", "--ref-format", "--reference", "--reference-if-able", "--refmap", "--repo",
    "--revision", "--separate-git-dir", "--server-option", "--shallow-exclude", "--shallow-since", "--sort",
    "--strategy", "--strategy-option", "--submodule-prefix", "--template",
)  # fmt: skip
_VALUED_SHORT: Final = {
    "clone": "bocuj", "fetch": "jo", "ls-remote": "o", "pull": "sXjo", "push": "o", "submodule": "b",
}  # fmt: skip
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: `helper::address`: git runs `git-remote-helper`.
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]+::")


def git_command(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the command of a git line, given the words after `git`, and its own words; nothing when it has none."""
    is_value = False
    for index, word in enumerate(words):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in GIT_VALUED
        else:
            return word, words[index + 1 :]
    return "", ()


def named_strategy(command: str, words: tuple[str, ...]) -> str | None:
    """Return the strategy that is none of git's own: git runs the program `git-merge-NAME`, also from a folder."""
    if command not in _WITH_STRATEGY:
        return None
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        following = words[index + 1] if index + 1 < len(words) else None
        found: str | None = None
        if name.startswith("--st") and "--strategy".startswith(name):
            found = value if equals else following
        elif command in _SHORT_STRATEGY and re.match(rf"-[^-{_VALUED_LETTERS}s]*s", word):
            found = word.partition("s")[2] or following
        if found is not None and found not in _STRATEGIES:
            return found
    return None


def contacted(command: str, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that name the repository which a command of git contacts; none when it is the configured one."""
    if command not in _CONTACTS:
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
            is_value = "" if equals else _with_value(command, name)
        elif word != "--":
            operands.append(word)
    if (within := _CONTACTS[command]) and (not operands or operands.pop(0) not in within):
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


def _with_value(command: str, name: str) -> str:
    """Return the option whose value is the next word, or nothing."""
    if name.startswith("--"):
        return next((option for option in _VALUED if option.startswith(name)), "") if len(name) > 3 else ""
    letters = _VALUED_SHORT.get(command, "")
    # Behind a letter with a value is the value, where the word has more.
    found = next((place for place, letter in enumerate(name) if letter in letters), -1)
    return name if found == len(name) - 1 and found > 0 else ""
