"""A set of rules and its judgement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_kit.guard.policy.facts import Facts
from amplifier_kit.guard.policy.index import RuleIndex
from amplifier_kit.guard.policy.part import Part, parts_of
from amplifier_kit.guard.policy.rule import Rule, Verdict

#: The reason when no rule covers an action, and nothing else is wrong with it.
UNCOVERED: Final = "no rule covers it"


class Decision(NamedTuple):
    """What the rules say: a verdict, or None when no rule covers some part of the action; `what` is that part."""

    verdict: Verdict | None
    reason: str
    rule: Rule | None = None
    what: str = ""


class RuleSet:
    """Rules, made ready to be asked often. Their order changes no verdict."""

    def __init__(
        self, rules: Iterable[Rule], project: Path, *, home: Path | None = None, otherwise: RuleSet | None = None
    ) -> None:
        self.rules = tuple(rules)
        self.project = project
        self.otherwise = otherwise
        self._by_verdict = {
            verdict: RuleIndex((rule for rule in self.rules if rule.verdict == verdict), project, home)
            for verdict in ("deny", "ask", "allow")
        }

    @classmethod
    def from_rules(
        cls, rules: Iterable[Rule], project: Path, *, home: Path | None = None, otherwise: RuleSet | None = None
    ) -> RuleSet:
        """Compile rules; `otherwise` is asked for each part of an action that none of these rules covers."""
        return cls(rules, project, home=home, otherwise=otherwise)

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
        """Tell whether one part of an action is allowed already."""
        return (self._denied(part) or self._decide(part)).verdict == "allow"

    def _denied(self, part: Part) -> Decision | None:
        """Return the denial of any rule of this set or those behind it: deny is absolute."""
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
            return Decision(None, part.problem or UNCOVERED, None, part.what)
        if decision.verdict == "allow" and part.is_uncertain:
            return self._unless_possible(part, decision)
        return decision

    def _unless_possible(self, part: Part, decision: Decision) -> Decision:
        """Ask for what would be allowed, when it may turn out to be what a rule denies or asks for."""
        rule = self._possibly_denied(part) or self._by_verdict["ask"].possible(part)
        if rule is None:
            return decision
        why = part.problem or "part of it is known only when it runs"
        return Decision("ask", f"it may be what the rule `{rule}` is about: {why}", rule, part.what)

    def _possibly_denied(self, part: Part) -> Rule | None:
        """Return a rule of this set or those behind it that may deny a part: there, too, deny is absolute."""
        if rule := self._by_verdict["deny"].possible(part):
            return rule
        return None if self.otherwise is None else self.otherwise._possibly_denied(part)


def _by(rule: Rule, part: Part) -> Decision:
    return Decision(rule.verdict, rule.reason or f"the rule `{rule}`", rule, part.what)
