"""Measure how long the policy takes to judge one action, by a thousand rules.

The rules are those of people at work: many commands, some paths and hosts, a few of them denied or asked for; and, as
the worst that rules can be, all of them alike up to their last letters. A judgement is all of it: the command is
parsed, its parts are looked up, the verdict is folded. Rounds are of 100 judgements.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from harness import Row, Setting, lower_quartile, microseconds

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rules import Rule, RuleSet

TARGET_MS = 1.0
JUDGEMENTS = 100
#: The actions name rules up to this number; with fewer their verdicts are not those that are expected.
FEWEST_RULES = 520

#: What is judged: a name, the action and its details, and the verdicts by usual and by uniform rules.
ACTIONS: list[tuple[str, str, dict[str, Any], str | None, str | None]] = [
    ("one command", "process.exec", {"command": "tool500 status --short"}, "allow", None),
    (
        "a line of four commands",
        "process.exec",
        {"command": "ls -la | wc -l && tool7 status; tool9 log"},
        "allow",
        None,
    ),
    ("a command that is denied", "process.exec", {"command": "ls; danger3 -rf /"}, "deny", None),
    ("a command that no rule names", "process.exec", {"command": "unheard-of --option value"}, None, None),
    ("a command with unknown parts", "process.exec", {"command": 'ls "$HOME" *.py'}, "ask", None),
    ("a command that all rules resemble", "process.exec", {"command": f"git log {'x' * 40}"}, None, None),
    ("a path", "filesystem.write", {"path": "src/part30/deep/er/file.py"}, "allow", None),
    ("a host", "network.fetch", {"host": "www.site40.example"}, "allow", None),
]


def usual_rules(count: int) -> list[Rule]:
    """Return rules of every kind, as many as that."""
    rules = [Rule("allow", command="ls *"), Rule("allow", command="wc *")]
    for number in range(count - len(rules)):
        kind = number % 10
        if kind == 0:
            rules.append(Rule("allow", action="filesystem.write", path=f"src/part{number}/**"))
        elif kind == 1:
            rules.append(Rule("allow", action="network.fetch", host=f"*.site{number - 1}.example"))
        elif kind == 2:
            rules.append(Rule("deny", action="process.exec", command=f"*never{number}*"))
        elif kind == 3:
            rules.append(Rule("deny", action="process.exec", command=f"danger{number} *"))
        else:
            rules.append(Rule("allow", action="process.exec", command=f"tool{number} *"))
    extra = [f"tool{number} {word}*" for number in (0, 7, 9, 500) for word in ("status", "log")]
    return [*rules[: count - len(extra)], *(Rule("allow", command=command) for command in extra)]


def uniform_rules(count: int) -> list[Rule]:
    """Return rules that all begin alike, so that none is ruled out at once."""
    return [Rule("deny" if number % 2 else "allow", command=f"git log *x*{number}y") for number in range(count)]


def decide(rule_set: RuleSet, project: Path, action: str, details: dict[str, Any]) -> str | None:
    """Judge an action."""
    return rule_set.decide(facts(action, details, project)).verdict


def measure(setting: Setting) -> list[Row]:
    """Return the rows for `size` rules; raise RuntimeError when a verdict is wrong."""
    count = setting.size
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder).resolve()
        for kind, rules in (("usual", usual_rules(count)), ("uniform", uniform_rules(count))):
            rule_set = RuleSet(rules, project)
            for name, action, details, usual, uniform in ACTIONS:
                expected = usual if kind == "usual" else uniform
                judge = partial(decide, rule_set, project, action, details)
                verdict = judge()
                if verdict != expected and count >= FEWEST_RULES:
                    raise RuntimeError(f"{name}, {kind} rules: {verdict} instead of {expected}")
                taken = [microseconds(judge, repeat=JUDGEMENTS) / 1000 for _ in range(setting.rounds)]
                rows.append(Row(f"judge {name}, {count:,} {kind} rules", lower_quartile(taken), most=TARGET_MS))
    return rows
