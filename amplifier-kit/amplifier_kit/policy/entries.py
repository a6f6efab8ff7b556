"""Rules from the entries of a policy file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from amplifier_kit.policy.rule import Rule


class Problem(NamedTuple):
    """What is wrong with one entry, where, and what was done about it."""

    where: str
    message: str


def parse_rules(data: object, where: Callable[[int, str | None], str]) -> tuple[list[Rule], list[Problem]]:
    """Return the rules of a file's `rules:` list and what is wrong with it; never raises, never fails open.

    `where(index, key)` names the file and line of an entry. A bad allow entry is left out; a bad deny or ask entry, or
    one whose verdict cannot be read, asks for its whole action instead, or for everything when that cannot be read.
    """
    raise NotImplementedError


def check_examples(rule: Rule, project: Path = Path("/project")) -> list[Problem]:
    """Try a rule on its own examples; return one problem for each that it judges otherwise than it says."""
    raise NotImplementedError
