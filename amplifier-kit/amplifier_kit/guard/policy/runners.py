"""Programs that start another one: `python -m`, `uv run`, `coverage run` and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amplifier_kit.guard.policy.segment import HOLE

_PYTHON: Final = re.compile(r"python[0-9.]*|pypy[0-9.]*")
#: Options of python that have a value, in the same word or in the next.
_PYTHON_VALUED: Final = "WX"
_PYTHON_LONG_VALUED: Final = ("--check-hash-based-pycs",)
_RUN: Final = ("uv", "poetry", "pdm", "hatch", "rye", "pipenv", "coverage")
#: More of them in one line than that start nothing that anybody needs.
_DEEPEST: Final = 5


def started(words: tuple[str, ...], depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command, and of every program that it may start by these words.

    Which options have a value is not known of all runners, so that the word behind one may be that or the program: then
    both are meant.
    """
    yield words
    program = words[0].rpartition("/")[2] if words else ""
    if depth >= _DEEPEST:
        return
    if _PYTHON.fullmatch(program):
        found = _module(words[1:])
        if found:
            yield from started(found, depth + 1)
    elif program in _RUN:
        for each in _run(words[1:]):
            yield from started(each, depth + 1)


def _module(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words from the module that python runs on; none when it runs something else."""
    at = 0
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word.startswith("--"):
            at += word in _PYTHON_LONG_VALUED
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter == "m":
                rest = words[at:]
                return (word[place:], *rest) if word[place:] else rest
            if letter == "c":
                return ()
            if letter in _PYTHON_VALUED:
                at += not word[place:]
                break
    return ()


def _run(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words from each that may be the program behind `run`, with whatever options before and behind that."""
    places = [place for place, word in enumerate(words) if word == "run"]
    if not places or not _may_follow(words[: places[0]]):
        return
    rest = words[places[0] + 1 :]
    for at, word in enumerate(rest):
        if word in ("-m", "--module"):
            yield rest[at + 1 :]
            return
        if word.startswith("-"):
            continue
        if HOLE in word:
            return
        # hatch has the environment before the program, as in `test:pytest`
        yield (word.rpartition(":")[2], *rest[at + 1 :])
        if not at or not rest[at - 1].startswith("-") or "=" in rest[at - 1] or rest[at - 1] == "--":
            return


def _may_follow(words: tuple[str, ...]) -> bool:
    """Tell whether all that stands before `run` are options, each perhaps with a value."""
    return all(word.startswith("-") or (at and words[at - 1].startswith("-")) for at, word in enumerate(words))
