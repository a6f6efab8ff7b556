"""A set of rules and its judgement."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from amplifier_kit.policy.facts import Facts
from amplifier_kit.policy.rule import Rule, Verdict


class Decision(NamedTuple):
    """What the rules say: a verdict, or None when no rule covers some part of the action; `what` is that part."""

    verdict: Verdict | None
    reason: str
    rule: Rule | None = None
    what: str = ""


class RuleSet:
    """Rules, made ready to be asked often. Their order changes no verdict."""

    @classmethod
    def from_rules(
        cls, rules: Iterable[Rule], project: Path, *, home: Path | None = None, otherwise: RuleSet | None = None
    ) -> RuleSet:
        """Compile rules; `otherwise` is asked for each part of an action that none of these rules covers."""
        raise NotImplementedError

    def decide(self, facts: Facts) -> Decision:
        """Judge an action: any part denied denies, else any ask asks, else all must be allowed, else None."""
        raise NotImplementedError
