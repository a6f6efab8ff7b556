"""The parts of an action: what a single rule is held against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from amplifier_kit.guard.policy.facts import Facts
from amplifier_kit.guard.policy.segment import Segment
from amplifier_kit.guard.policy.whole_line import line_forms


class Part(NamedTuple):
    """One command, one path or one host, or an action that has none of them.

    `actions` are the names under which a rule may mean it: a file that a command writes is written and run.
    `is_refused` means that nothing allows it; a `problem` on a command means that no rule allows it by its words.
    `lines` are all the spellings of a command that rules which restrict are held against.
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
        """Whether it is a line of several commands: only rules are about it that name more than one."""
        return self.is_spelling and self.segment is not None

    @property
    def is_uncertain(self) -> bool:
        """Whether it may turn out to be something else when it runs."""
        return self.segment is not None and self.segment.has_holes


def parts_of(facts: Facts) -> Iterator[Part]:
    """Return every part of an action; at least one."""
    own = (facts.action,)
    count = 0
    for part in _parts(facts, own):
        count += 1
        yield part
    if facts.problem or not count:
        yield Part(own, facts.tool, facts.tool or facts.action, problem=facts.problem, is_refused=bool(facts.problem))


def _parts(facts: Facts, own: tuple[str, ...]) -> Iterator[Part]:
    for segment in facts.commands or ():
        if segment.words or segment.assignments or segment.is_opaque:
            lines = segment.spellings()
            yield Part(own, facts.tool, segment.text, segment=segment, problem=segment.problem, lines=lines)
    for line in facts.lines:
        yield Part(own, facts.tool, line, segment=Segment(None, line), is_spelling=True, lines=line_forms(line))
    for path in facts.paths:
        yield Part(own, facts.tool, str(path), path=path)
    for action, paths in (("filesystem.read", facts.reads), ("filesystem.write", facts.writes)):
        for path in paths:
            yield Part((action, *own), facts.tool, str(path), path=path)
    touched = {*facts.paths, *facts.reads, *facts.writes}
    besides = ("filesystem.read",) * bool(facts.reads) + ("filesystem.write",) * bool(facts.writes)
    for path in facts.spelled:
        if path not in touched:
            yield Part((*besides, *own), facts.tool, str(path), path=path, is_spelling=True)
    for host in facts.hosts:
        yield Part(own, facts.tool, host, host=host)
