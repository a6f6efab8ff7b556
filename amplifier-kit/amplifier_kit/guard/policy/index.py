"""Rules of one verdict, found by what their patterns start with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from amplifier_kit.guard.policy.glob import compiled, literal_prefix, longest_text
from amplifier_kit.guard.policy.hosts import normal_host
from amplifier_kit.guard.policy.part import Part
from amplifier_kit.guard.policy.places import folded, path_matches, pattern_parts, prefix_of, restricted_forms
from amplifier_kit.guard.policy.rule import Rule
from amplifier_kit.guard.policy.segment import HOLE, Segment
from amplifier_kit.guard.policy.whole_line import spans_commands


class _Command(NamedTuple):
    #: Text that is in every line which matches: looking for it is faster than matching.
    needle: str
    expression: re.Pattern[str]
    rule: Rule


class _Place(NamedTuple):
    pattern: tuple[str, ...]
    rule: Rule


class RuleIndex:
    """Rules of one verdict. An action is held against the few whose patterns start as it does."""

    def __init__(self, rules: Iterable[Rule], project: Path, home: Path | None) -> None:
        self._blanket: list[Rule] = []
        self._commands: dict[str, list[_Command]] = {}
        self._places: dict[str, list[_Place]] = {}
        self._hosts: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.command is not None:
                self._add_command(rule, rule.command)
            elif rule.path is not None:
                self._add_place(rule, pattern_parts(rule.path, project, home))
            elif rule.host is not None:
                self._hosts.setdefault(_host_key(rule.host), []).append(rule)
            else:
                self._blanket.append(rule)
        self._lengths = sorted({len(prefix) for prefix in self._commands})

    def _add_command(self, rule: Rule, pattern: str) -> None:
        patterns = [pattern, pattern[:-2]] if pattern.endswith(" *") and pattern[:-2].strip() else [pattern]
        for each in patterns:
            self._commands.setdefault(literal_prefix(each), []).append(
                _Command(longest_text(each[len(literal_prefix(each)) :]), compiled(each), rule)
            )

    def _add_place(self, rule: Rule, parts: tuple[str, ...]) -> None:
        forms = {parts} if rule.verdict == "allow" else restricted_forms(parts, is_exact=rule.is_exact)
        for form in forms:
            self._places.setdefault(prefix_of(form), []).append(_Place(form, rule))

    def allowing(self, part: Part) -> Rule | None:
        """Return a rule that means exactly this part, or its action whatever it does."""
        if part.is_refused:
            return None
        for rule in self._blanket:
            if _is_about(rule, part):
                return rule
        if part.segment is not None:
            return None if part.problem else self._command(part.segment.line, part)
        return self._place(str(part.path), part) if part.path is not None else self._host(part)

    def restricting(self, part: Part) -> Rule | None:
        """Return a rule that means this part, however it is spelled."""
        for rule in self._blanket:
            if _is_about(rule, part):
                return rule
        if part.segment is not None:
            found = (self._command(line, part) for line in part.lines)
            return next((rule for rule in found if rule is not None), None)
        return self._place(folded(str(part.path)), part) if part.path is not None else self._host(part)

    def possible(self, part: Part) -> Rule | None:
        """Return a rule that a command may turn out to be about, once what is unknown in it is filled in."""
        if part.segment is None or not part.segment.has_holes:
            return None
        return self._possible_command(part.segment, part) or self._possible_file(part.segment, part)

    def _possible_file(self, segment: Segment, part: Part) -> Rule | None:
        """Return a rule about files that a redirect may turn out to open: where it leads is not known."""
        kinds = sorted({redirect.kind for redirect in segment.redirects if redirect.target is None})
        if not kinds:
            return None
        opening = part._replace(actions=(*(f"filesystem.{kind}" for kind in kinds), *part.actions))
        named = (place.rule for places in self._places.values() for place in places)
        return next((rule for rule in chain(self._blanket, named) if _is_about(rule, opening)), None)

    def _possible_command(self, segment: Segment, part: Part) -> Rule | None:
        starts = _certain_starts(segment, part.lines)
        for prefix, commands in self._commands.items():
            if any(start.startswith(prefix) or prefix.startswith(start) for start in starts):
                for command in commands:
                    if _is_about(command.rule, part):
                        return command.rule
        return None

    def _command(self, line: str, part: Part) -> Rule | None:
        for length in self._lengths:
            if length > len(line):
                break
            for needle, expression, rule in self._commands.get(line[:length], ()):
                if needle in line and expression.match(line) and _is_about(rule, part):
                    return rule
        return None

    def _place(self, path: str, part: Part) -> Rule | None:
        steps = [step for step in path.split("/") if step]
        for depth in range(len(steps) + 1):
            for place in self._places.get("/" + "/".join(steps[:depth]), ()):
                if path_matches(place.pattern, steps) and _is_about(place.rule, part):
                    return place.rule
        return None

    def _host(self, part: Part) -> Rule | None:
        if part.host is None:
            return None
        labels = part.host.split(".")
        # An address has nothing above it.
        above = [] if ":" in part.host or labels[-1].isdecimal() else range(1, len(labels))
        keys = [part.host, *("*." + ".".join(labels[start:]) for start in above), "*"]
        return next((rule for rule in self._named(keys) if _is_about(rule, part)), None)

    def _named(self, keys: list[str]) -> Iterator[Rule]:
        for key in keys:
            yield from self._hosts.get(key, ())


def _host_key(pattern: str) -> str:
    if pattern == "*":
        return pattern
    return "*." + normal_host(pattern[2:]) if pattern.startswith("*.") else normal_host(pattern)


def _certain_starts(segment: Segment, lines: tuple[str, ...]) -> set[str]:
    return {line.split(HOLE, 1)[0] for line in lines} if segment.prefix else {""}


def _is_about(rule: Rule, part: Part) -> bool:
    if part.is_line and not spans_commands(rule.command or ""):
        return False
    # A rule that restricts means `bash` by `Bash` as well: one that never fits protects from nothing.
    fits = _fits if rule.verdict == "allow" else _fits_by_any_case
    if rule.tool is not None and not fits(rule.tool, part.tool):
        return False
    return rule.action is None or any(fits(rule.action, action) for action in part.actions)


@lru_cache(maxsize=4096)
def _fits(pattern: str, name: str) -> bool:
    return compiled(pattern).match(name) is not None


@lru_cache(maxsize=4096)
def _fits_by_any_case(pattern: str, name: str) -> bool:
    return _fits(pattern.casefold(), name.casefold())
