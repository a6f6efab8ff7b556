"""Rules over actions: a rule, the index that finds the ones that apply, their verdict, and the rules for "always"."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeAlias

from amplifier_kit.guard.policy.facts import Facts, Part, parts_of
from amplifier_kit.guard.policy.paths import (
    check_classes,
    compiled,
    compiled_path,
    escaped,
    folded,
    literal_prefix,
    longest_text,
    pattern_parts,
    plain_path,
    prefix_of,
    restricted_forms,
)
from amplifier_kit.guard.policy.segments import HOLE, RESERVED, Segment, spans_commands
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

#: Longer patterns are refused: they cannot be reviewed, and each is tried on every action.
MAX_PATTERN = 2_000
MAX_WILDCARDS = 40

_CONTROL = "[\x00-\x1f\ud800-\udfff]"
#: A folder's name may have bytes that are not UTF-8: built-in rules name such folders.
_CONTROL_IN_PATH = "[\x00-\x1f\ud800-\udc7f\udd00-\udfff]"


class RuleError(ValueError):
    """An invalid or contradictory rule; `field` is the key to look at."""

    code = "policy.rule"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Example(NamedTuple):
    """An action that a rule is tried on when it is loaded; fields that are None are taken from the rule."""

    command: str | None = None
    path: str | None = None
    host: str | None = None
    action: str | None = None
    tool: str | None = None


class Rule(FrozenStruct):
    """A verdict on what matches every pattern it names.

    `command`, `path` and `host` exclude one another. A rule without any of them covers its action or tool whatever
    it does. In `command`, `*` matches any text and a final ` *` also no arguments at all; in `path`, `*` stays within a
    folder and `**` does not, relative paths are the project's; a rule that restricts a folder by its name covers
    everything below, unless it `is_exact`; `host` is a name, `*.` and a name, or `*`.

    Raises:
        RuleError: When a pattern is empty, too long or of a wrong form, or when two kinds are named at once.
    """

    verdict: Verdict
    action: str | None = None
    tool: str | None = None
    command: str | None = None
    path: str | None = None
    host: str | None = None
    reason: str = ""
    match: tuple[Example, ...] = ()
    not_match: tuple[Example, ...] = ()
    where: str = ""
    is_exact: bool = False

    def __post_init__(self) -> None:
        if self.verdict not in ("allow", "ask", "deny"):
            raise RuleError(f"the verdict is {self.verdict!r}: use allow, ask or deny", "verdict")
        for field in ("action", "tool", "command", "path", "host"):
            _check_pattern(field, getattr(self, field))
        kinds = [field for field in ("command", "path", "host") if getattr(self, field) is not None]
        if len(kinds) > 1:
            raise RuleError(f"{' and '.join(kinds)} exclude one another: write one rule for each", kinds[1])
        if self.path is not None:
            _check_path(self.path)
        if self.host is not None:
            _check_host(self.host)

    @property
    def is_specific(self) -> bool:
        """Whether it names a command, a path or a host: then it allows only actions that are understood."""
        return self.command is not None or self.path is not None or self.host is not None

    def __str__(self) -> str:
        parts: list[str] = [self.verdict]
        if self.action is not None:
            parts.append(self.action)
        elif not self.is_specific and self.tool is None:
            parts.append("everything")
        named = {field: getattr(self, field) for field in ("tool", "command", "path", "host")}
        return " ".join([*parts, *(f'{field} "{value}"' for field, value in named.items() if value is not None)])


def _check_pattern(field: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise RuleError(f"{field} is {value!r}, not a text: put it in quotes", field)
    if not value.strip():
        raise RuleError(f"{field} is empty: leave it out to mean any", field)
    if len(value) > MAX_PATTERN or value.count("*") > MAX_WILDCARDS:
        raise RuleError(
            f"{field} is longer than {MAX_PATTERN} characters or has more than {MAX_WILDCARDS} wildcards", field
        )
    # Compiling these takes longer than all rules: only a text that is not printable needs them.
    if not value.isprintable() and re.search(_CONTROL_IN_PATH if field == "path" else _CONTROL, value):
        raise RuleError(f"{field} {value!r} contains control characters", field)
    try:
        check_classes(value)
    except re.error as error:
        raise RuleError(f"{field} {value!r} has an invalid class: {error.msg}", field) from error


def _check_path(pattern: str) -> None:
    parts = pattern.split("/")
    wild = next((index for index, part in enumerate(parts) if "*" in part or "?" in part or "[" in part), len(parts))
    if ".." in parts[wild:]:
        raise RuleError(f"path {pattern!r} goes up with '..' after a wildcard: it would match nothing", "path")
    if pattern.startswith("~") and parts[0] != "~":
        raise RuleError(f"path {pattern!r} names another user's home: write it as an absolute path", "path")


def _check_host(pattern: str) -> None:
    from amplifier_kit.guard.network import MalformedError, canonical_host

    if pattern == "*":
        return
    name = pattern.removeprefix("*.")
    if "*" in name or "?" in name:
        raise RuleError(f"host {pattern!r}: only '*', or '*.' before a name, matches several hosts", "host")
    try:
        canonical_host(name)
    except MalformedError as error:
        raise RuleError(f"host {pattern!r}: {error}", "host") from error


# --- rules found by their patterns ---


class _Command(NamedTuple):
    #: Text that is in every line which matches: looking for it is faster than matching.
    needle: str
    expression: re.Pattern[str]
    rule: Rule


class _Place(NamedTuple):
    pattern: tuple[str, ...]
    rule: Rule


class _Index:
    """Rules of one verdict. An action is matched with the few whose patterns start as it does."""

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
        if rule := self._of_action(part):
            return rule
        if part.segment is not None:
            return None if part.problem else self._command(part.segment.line, part)
        return self._place(str(part.path), part) if part.path is not None else self._host(part)

    def restricting(self, part: Part) -> Rule | None:
        """Return a rule that means this part, however it is spelled."""
        if rule := self._of_action(part):
            return rule
        if part.segment is not None:
            return next(filter(None, (self._command(line, part) for line in part.lines)), None)
        return self._place(folded(str(part.path)), part) if part.path is not None else self._host(part)

    def possible(self, part: Part) -> Rule | None:
        """Return a rule that a command may turn out to be about, once its unknown parts are filled in."""
        segment = part.segment
        if segment is None or not segment.has_holes:
            return None
        starts = {line.split(HOLE, 1)[0] for line in part.lines} if segment.prefix else {""}
        for prefix, commands in self._commands.items():
            if any(start.startswith(prefix) or prefix.startswith(start) for start in starts):
                for command in commands:
                    if _is_about(command.rule, part):
                        return command.rule
        # A redirect to an unknown file may open any that a rule is about.
        kinds = sorted({redirect.kind for redirect in segment.redirects if redirect.target is None})
        if not kinds:
            return None
        opening = part._replace(actions=(*(f"filesystem.{kind}" for kind in kinds), *part.actions))
        named = (place.rule for places in self._places.values() for place in places)
        return next((rule for rule in chain(self._blanket, named) if _is_about(rule, opening)), None)

    def _of_action(self, part: Part) -> Rule | None:
        for rule in self._blanket:
            if _is_about(rule, part):
                return rule
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
        plain = plain_path(path)
        steps = plain.split("/")
        for depth in range(1, len(steps) + 1):
            for pattern, rule in self._places.get("/".join(steps[:depth]), ()):
                if compiled_path(pattern).match(plain) and _is_about(rule, part):
                    return rule
        return None

    def _host(self, part: Part) -> Rule | None:
        if part.host is None:
            return None
        labels = part.host.split(".")
        # An address has no domain above it.
        above = [] if ":" in part.host or labels[-1].isdecimal() else range(1, len(labels))
        keys = [part.host, *("*." + ".".join(labels[start:]) for start in above), "*"]
        return next((rule for key in keys for rule in self._hosts.get(key, ()) if _is_about(rule, part)), None)


def _host_key(pattern: str) -> str:
    from amplifier_kit.guard.network import canonical_host

    if pattern == "*":
        return pattern
    return "*." + canonical_host(pattern[2:]) if pattern.startswith("*.") else canonical_host(pattern)


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


# --- the verdict of a set of rules ---

#: The reason when no rule covers an action that is otherwise understood.
UNCOVERED: Final = "no rule covers it"


class Decision(NamedTuple):
    """The verdict of rules, None when they do not cover some part of the action; `what` is the part that decided."""

    verdict: Verdict | None
    reason: str
    rule: Rule | None = None
    what: str = ""
    #: Whether the only reason is that no rule covers it.
    is_uncovered: bool = False


class RuleSet:
    """Compiled rules. Their order changes no verdict; `otherwise` decides each part that none of them covers."""

    def __init__(
        self, rules: Iterable[Rule], project: Path, *, home: Path | None = None, otherwise: RuleSet | None = None
    ) -> None:
        self.rules = tuple(rules)
        self.project = project
        self.otherwise = otherwise
        self._by_verdict = {
            verdict: _Index((rule for rule in self.rules if rule.verdict == verdict), project, home)
            for verdict in ("deny", "ask", "allow")
        }

    def decide(self, facts: Facts) -> Decision:
        """Judge an action: any part denied denies, else any ask asks, else all must be allowed, else None."""
        decisions = list(self.decide_parts(facts))
        for verdict in ("deny", "ask", None):
            for decision in decisions:
                if decision.verdict == verdict:
                    return decision
        return decisions[0]

    def decide_parts(self, facts: Facts) -> Iterator[Decision]:
        """Judge every part of an action on its own: each command, file, path and host; at least one."""
        for part in parts_of(facts):
            decision = self._denied(part) or self._decide(part)
            if not part.is_spelling or decision.verdict == "deny":
                yield decision
            elif rule := self._by_verdict["ask"].restricting(part):
                yield _by(rule, part)

    def covers(self, part: Part) -> bool:
        """Return whether one part of an action is allowed."""
        return (self._denied(part) or self._decide(part)).verdict == "allow"

    def _denied(self, part: Part) -> Decision | None:
        """Return the denial of any rule of this set or of `otherwise`: deny is absolute."""
        if rule := self._by_verdict["deny"].restricting(part):
            return _by(rule, part)
        return None if self.otherwise is None else self.otherwise._denied(part)

    def _decide(self, part: Part) -> Decision:
        if rule := self._by_verdict["ask"].restricting(part):
            return _by(rule, part)
        if rule := self._by_verdict["allow"].allowing(part):
            decision = _by(rule, part)
        elif self.otherwise is not None:
            decision = self.otherwise._decide(part)
        else:
            return Decision(None, part.problem or UNCOVERED, None, part.what, is_uncovered=not part.problem)
        if decision.verdict != "allow" or not part.is_uncertain:
            return decision
        # An allowed command may turn out to be one that a rule denies or asks for.
        rule = self._possibly_denied(part) or self._by_verdict["ask"].possible(part)
        if rule is None:
            return decision
        why = part.problem or "part of it is known only when it runs"
        return Decision("ask", f"it may be what the rule `{rule}` is about: {why}", rule, part.what)

    def _possibly_denied(self, part: Part) -> Rule | None:
        if rule := self._by_verdict["deny"].possible(part):
            return rule
        return None if self.otherwise is None else self.otherwise._possibly_denied(part)


def _by(rule: Rule, part: Part) -> Decision:
    return Decision(rule.verdict, rule.reason or f"the rule `{rule}`", rule, part.what)


# --- rules for "always" ---


def suggest(facts: Facts, rules: RuleSet | None = None, project: Path | None = None) -> tuple[Rule, ...]:
    """Return the narrowest rules that would allow an action, one for each part that `rules` do not allow yet.

    Empty when nothing is worth remembering: a part is not understood, depends on the moment it runs, or is denied. A
    person is shown `str(rule)`, and exactly that is granted. Paths below `project` are written relative to it.
    """
    found: dict[str, Rule] = {}
    if rules is not None and rules.decide(facts).verdict == "deny":
        return ()
    for part in parts_of(facts):
        if part.is_spelling or (rules is not None and rules.covers(part)):
            continue
        try:
            rule = None if part.is_refused else _narrowest_rule(part, project)
        except RuleError:  # too long, or of characters that a rule cannot have
            rule = None
        if rule is None:
            return ()
        found[str(rule)] = rule
    return tuple(found.values())


def _narrowest_rule(part: Part, project: Path | None) -> Rule | None:
    action = part.actions[0]
    if part.segment is not None:
        command = None if part.problem else _narrowest_command(part.segment)
        return None if command is None else Rule("allow", action=action, command=command)
    if part.path is not None:
        root = None if project is None else Path(os.path.realpath(project))
        is_inside = root is not None and part.path != root and part.path.is_relative_to(root)
        path = part.path.relative_to(root) if is_inside and root is not None else part.path
        return Rule("allow", action=action, path=escaped(str(path)))
    if part.host is not None:
        return Rule("allow", action=action, host=part.host)
    return Rule("allow", action=action, tool=escaped(part.tool) or None)


def _narrowest_command(segment: Segment) -> str | None:
    from amplifier_kit.guard.policy.programs import program_row

    words, line = segment.words or ("",), segment.line
    if words[0] in RESERVED or "=" in words[0]:
        return None  # it is not the name of a program: it was misread
    # Only a command that just looks is remembered with any arguments.
    row = None if segment.assignments else program_row(words[0])
    if row is not None and row.name == words[0]:
        command = row.commands.get(words[1]) if len(words) > 1 else None
        if command is not None and command.only_looks:
            return f"{words[0]} {words[1]} *"
        if row.only_looks:
            return f"{row.name} *"
    return None if HOLE in line else escaped(line)
