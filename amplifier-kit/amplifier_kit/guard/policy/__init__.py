"""Rules over actions: `parse_rules` reads them, `facts` says what an action would do, `RuleSet.decide` judges it.

Deny is absolute, ask is a floor, allow must cover every part: each command of a shell line, each file it writes, each
path, each host. What nothing matches has no verdict (`None`), and who asks denies it. What cannot be understood is
never allowed by a rule that names a command, a path or a host.
Nothing here reads a file's content, knows a home or has defaults of its own. Names are imported when they are asked
for: the shell's grammar is loaded with the first command that is parsed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Functions of the names of their files: imported now, so that the files cannot take the functions' place later.
from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.suggest import suggest

if TYPE_CHECKING:
    from amplifier_kit.guard.policy.entries import Problem, check_examples, parse_rules
    from amplifier_kit.guard.policy.facts import Facts
    from amplifier_kit.guard.policy.rule import Example, Rule, RuleError, Verdict
    from amplifier_kit.guard.policy.rules import Decision, RuleSet
    from amplifier_kit.guard.policy.segment import Redirect, Segment
    from amplifier_kit.guard.policy.shell import ShellParse

_HOMES = {
    "Decision": "rules",
    "Example": "rule",
    "Facts": "facts",
    "Problem": "entries",
    "Redirect": "segment",
    "Rule": "rule",
    "RuleError": "rule",
    "RuleSet": "rules",
    "Segment": "segment",
    "ShellParse": "shell",
    "Verdict": "rule",
    "check_examples": "entries",
    "parse_rules": "entries",
}

__all__ = [
    "Decision",
    "Example",
    "Facts",
    "Problem",
    "Redirect",
    "Rule",
    "RuleError",
    "RuleSet",
    "Segment",
    "ShellParse",
    "Verdict",
    "check_examples",
    "facts",
    "parse_rules",
    "suggest",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
