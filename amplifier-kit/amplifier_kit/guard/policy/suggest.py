"""The rules that a person's "always" stands for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_kit.guard.policy.segments import HOLE

if TYPE_CHECKING:
    from amplifier_kit.guard.policy.facts import Facts, Part
    from amplifier_kit.guard.policy.rules import Rule, RuleSet
    from amplifier_kit.guard.policy.segments import Segment


def suggest(facts: Facts, rules: RuleSet | None = None, project: Path | None = None) -> tuple[Rule, ...]:
    """Return the narrowest rules that would allow an action, one for each part that `rules` do not allow yet.

    Empty when nothing is worth remembering: a part is not understood, depends on what runs, or is denied. What a
    person is shown is `str(rule)`, and exactly that is granted. Paths below `project` are written relative to it.
    """
    from amplifier_kit.guard.policy.facts import parts_of

    found: dict[str, Rule] = {}
    if rules is not None and rules.decide(facts).verdict == "deny":
        return ()
    for part in parts_of(facts):
        if part.is_spelling or (rules is not None and rules.covers(part)):
            continue
        rule = None if part.is_refused else _rule(part, project)
        if rule is None:
            return ()
        found[str(rule)] = rule
    return tuple(found.values())


def _rule(part: Part, project: Path | None) -> Rule | None:
    from amplifier_kit.guard.policy.glob import escaped
    from amplifier_kit.guard.policy.rules import Rule, RuleError

    try:
        if part.segment is not None:
            command = None if part.problem else _command(part.segment)
            return None if command is None else Rule("allow", action=part.actions[0], command=command)
        if part.path is not None:
            return Rule("allow", action=part.actions[0], path=escaped(_place(part.path, project)))
        if part.host is not None:
            return Rule("allow", action=part.actions[0], host=part.host)
        return Rule("allow", action=part.actions[0], tool=escaped(part.tool) or None)
    except RuleError:
        # Too long, or of characters that a rule cannot have: then it is asked for each time.
        return None


def _command(segment: Segment) -> str | None:
    from amplifier_kit.guard.policy.glob import escaped
    from amplifier_kit.guard.policy.wrappers import RESERVED

    program, line = (segment.words or ("",))[0], segment.line
    if program in RESERVED or "=" in program:
        return None  # no name of a program: whatever it is, it has been misread
    if not segment.assignments and (known := _only_looks(segment.words or ())):
        return f"{known} *"
    return None if HOLE in line else escaped(line)


def _only_looks(words: tuple[str, ...]) -> str:
    """Return the command that only looks, whatever follows: the only kind that is remembered with any arguments."""
    from amplifier_kit.guard.policy.programs import program_row

    row = program_row(words[0])
    if row is None or row.name != words[0]:
        return ""
    command = row.commands.get(words[1]) if len(words) > 1 else None
    if command is not None and command.only_looks:
        return " ".join(words[:2])
    return row.name if row.only_looks else ""


def _place(path: Path, project: Path | None) -> str:
    if project is not None:
        import os

        root = Path(os.path.realpath(project))
        if path != root and path.is_relative_to(root):
            return str(path.relative_to(root))
    return str(path)
