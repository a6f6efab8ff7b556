"""Rules over actions: `parse_rules` reads them, `facts` says what an action would do, `RuleSet.decide` judges it.

Deny is absolute, ask is a floor, allow must cover every part: each command of a shell line, each file it writes, each
path, each host. An action that nothing matches has no verdict (`None`), and the caller denies it. What cannot be
understood is never allowed by a rule that names a command, a path or a host.
Nothing here reads a file's content or has default rules. Names are imported on first use: the shell's grammar is
loaded with the first command that is parsed.

| File | Subject |
|---|---|
| `rules.py`, `glob.py` | a rule, the index of rules, the verdict; patterns |
| `rule_parser.py`, `suggest.py` | rules from a policy file and their mistakes; rules for "always" |
| `facts.py`, `paths.py`, `known_tools.py` | what an action would do, where paths lead, what published tools do |
| `shell.py`, `syntax_tree.py`, `words.py`, `redirects.py`, `segments.py` | a shell line, taken apart into commands |
| `simple_commands.py` | the commands of a line as they are written, for checks that prevent accidents |
| `wrappers.py`, `hazards.py`, `scripts.py`, `repositories.py` | what a command runs, writes or follows besides |
| `programs.toml`, `programs.py` | what is known of single programs, see docs/policy-programs.md |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Functions of the names of their files: imported now, so that the files cannot take the functions' place later.
from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.suggest import suggest

if TYPE_CHECKING:
    from amplifier_kit.guard.policy.facts import Facts
    from amplifier_kit.guard.policy.rule_parser import Problem, check_examples, parse_rules
    from amplifier_kit.guard.policy.rules import Decision, Example, Rule, RuleError, RuleSet, Verdict
    from amplifier_kit.guard.policy.segments import Redirect, Segment
    from amplifier_kit.guard.policy.shell import ShellParse

_HOMES = {
    "Decision": "rules",
    "Example": "rules",
    "Facts": "facts",
    "Problem": "rule_parser",
    "Redirect": "segments",
    "Rule": "rules",
    "RuleError": "rules",
    "RuleSet": "rules",
    "Segment": "segments",
    "ShellParse": "shell",
    "Verdict": "rules",
    "check_examples": "rule_parser",
    "parse_rules": "rule_parser",
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
