"""The rule that a person's "always" stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from amplifier_kit.policy.facts import Facts
    from amplifier_kit.policy.rule import Rule
    from amplifier_kit.policy.rules import RuleSet


def suggest(facts: Facts, rules: RuleSet | None = None, project: Path | None = None) -> tuple[Rule, ...]:
    """Return the narrowest rules that would allow an action, one for each part that `rules` do not allow yet.

    Empty when nothing is worth remembering: a part is not understood, depends on what runs, or is forbidden.
    What a person is shown is `str(rule)`, and exactly that is granted.
    """
    raise NotImplementedError
