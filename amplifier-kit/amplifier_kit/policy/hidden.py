"""Tell which places a tool that looks at many must leave out: those that a rule restricts by their path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from amplifier_kit.policy.glob import compiled
from amplifier_kit.policy.index import RuleIndex
from amplifier_kit.policy.part import Part
from amplifier_kit.policy.rule import Rule

_READ = "filesystem.read"


def hidden_places(
    rules: Iterable[Rule], project: Path, tool: str, *, home: Path | None = None
) -> Callable[[str], bool] | None:
    """Return what tells whether a rule asks for reading a place by `tool`, or denies it; None when no rule does.

    A search is allowed by the folder that it looks at. What lies below may be another matter: whoever shows it asks
    this for each path, with all links followed.
    """
    actions = (_READ, f"tool.{tool}")
    known = [rule for rule in rules if rule.verdict != "allow" and rule.path is not None and _fits(rule, actions, tool)]
    if not known:
        return None
    index = RuleIndex(known, project, home)

    def is_hidden(path: str) -> bool:
        return index.restricting(Part(actions, tool, path, path=Path(path))) is not None

    return is_hidden


def _fits(rule: Rule, actions: tuple[str, ...], tool: str) -> bool:
    if rule.tool is not None and not compiled(rule.tool).match(tool):
        return False
    return rule.action is None or any(compiled(rule.action).match(action) for action in actions)
