"""A rule as one line of text: as a person gives it to a command, and as lists and questions show it.

git_rule = parse_rule_text('command "git status *"', "allow")
"""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.guard.policy.rule_parser import find_mistake
from amplifier_kit.guard.policy.rules import Rule, RuleError, Verdict

_EXAMPLES: Final = 'command "git status *", path "docs/**", host "*.example.com", tool.NAME, mcp.call'
_VERDICTS: Final = ("allow", "ask", "deny")
_EVERYTHING: Final = "everything"
_KEY: Final = re.compile(r"(tool|command|path|host)(?:\s+|:\s*|=\s*)(?=\S)")
#: An action is one dotted word; a single word without a dot is more likely a program or a tool.
_ACTION: Final = re.compile(r"(?:\*|[\w-]+\.[\w.*-]*)(?=\s|$)")
#: A value in quotes ends at the end, or before another key.
_QUOTED: Final = re.compile(r'"(.*?)"(?=\s*$|\s+(?:tool|command|path|host)\b)', re.DOTALL)


def parse_rule_text(text: str, verdict: Verdict) -> Rule:
    """Return the rule that a text such as `command "git status *"` means, with this verdict.

    A text is `[ACTION] [tool NAME] [command|path|host PATTERN]`, quotes optional; what `str(rule)` returns is read back
    as the same rule. Raises RuleError that says what is wrong and shows examples.
    """
    rest = text.strip()
    first, _, behind = rest.partition(" ")
    if first in _VERDICTS:
        if first != verdict:
            raise RuleError(f"the rule {text!r} says {first}, and this is for rules that {verdict}", "verdict")
        rest = behind.strip()
    if rest == _EVERYTHING:
        return Rule(verdict)
    given: dict[str, str] = {}
    if found := _ACTION.match(rest):
        given["action"], rest = found[0], rest[found.end() :].lstrip()
    while rest and (found := _KEY.match(rest)):
        key, rest = found[1], rest[found.end() :]
        if key in given:
            raise RuleError(f"the rule {text!r} has two patterns for {key}: write one rule for each", key)
        given[key], rest = _value(key, rest)
    if rest or not given:
        raise RuleError(f"cannot read the rule {text!r}: write it as one of {_EXAMPLES}")
    rule = Rule(verdict, **given)  # type: ignore[arg-type]  # the verdict is given apart
    if (mistake := find_mistake(rule)) is not None:
        raise RuleError(f"the rule {text!r}: {mistake.message}", mistake.field)
    return rule


def _value(key: str, rest: str) -> tuple[str, str]:
    """Return the value at the beginning of a text, and what follows it."""
    if found := _QUOTED.match(rest):
        return found[1], rest[found.end() :].lstrip()
    if key == "tool":  # the only value that another one may follow
        name, _, behind = rest.partition(" ")
        return name, behind.lstrip()
    return rest, ""
