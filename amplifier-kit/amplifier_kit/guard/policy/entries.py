"""Rules from the entries of a policy file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_kit.guard.policy.rule import Example, Rule, RuleError, Verdict
from amplifier_kit.guard.policy.slips import slip_in

_KEYS = ("action", "tool", "command", "path", "host", "verdict", "reason", "match", "not_match")
_PATTERNS = ("action", "tool", "command", "path", "host")
_BROKEN = "asks: a rule that should be here cannot be read"


class Problem(NamedTuple):
    """What is wrong with one entry, where, and what was done about it."""

    where: str
    message: str


def parse_rules(data: object, where: Callable[[int, str | None], str]) -> tuple[list[Rule], list[Problem]]:
    """Return the rules of a file's `rules:` list and what is wrong with it; never raises, never fails open.

    `where(index, key)` names the file and line of an entry. A bad allow entry is left out; a bad deny or ask entry, or
    one whose verdict cannot be read, asks for its whole action instead, or for everything when that cannot be read.
    A rule that judges its own examples otherwise than it says is bad, too, and so is one that can match nothing: one
    that restricts then stays besides.
    """
    if data is None:
        return [], []
    if not isinstance(data, list):
        place = where(0, None)
        floor = Rule("ask", reason=_BROKEN, where=place)
        return [floor], [Problem(place, f"rules is {_kind(data)}, not a list of entries: everything is asked for")]
    rules: list[Rule] = []
    problems: list[Problem] = []
    for index, entry in enumerate(data):
        _read(entry, lambda key, index=index: where(index, key), rules, problems)  # type: ignore[misc]
    return rules, problems


def check_examples(rule: Rule, project: Path = Path("/project")) -> list[Problem]:
    """Try a rule on its own examples; return one problem for each that it judges otherwise than it says.

    An example matches when the rule alone gives its verdict on it.
    """
    from amplifier_kit.guard.policy.facts import facts
    from amplifier_kit.guard.policy.rules import RuleSet

    alone = RuleSet.from_rules([rule], project)
    problems: list[Problem] = []
    for examples, expected in ((rule.match, True), (rule.not_match, False)):
        for example in examples:
            action, details = _example_details(rule, example)
            decision = alone.decide(facts(action, details, project))
            if (decision.verdict == rule.verdict) is not expected:
                shown = example.command or example.path or example.host or example.action or example.tool
                word = "does not match" if expected else "matches"
                problems.append(Problem(rule.where, f"`{rule}` {word} its example {shown!r}: {decision.reason}"))
    return problems


def _read(entry: object, where: Callable[[str | None], str], rules: list[Rule], problems: list[Problem]) -> None:
    """Read one entry; whatever is wrong with it stays with it."""
    try:
        rule = _rule(entry, where(None))
    except RuleError as error:
        floor = _floor(entry, where(None))
        fate = "it is left out" if floor is None else f"until it is mended, `{floor}` takes its place"
        problems.append(Problem(where(error.field), f"{error}; {fate}"))
        rules.extend([] if floor is None else [floor])
        return
    if (slip := slip_in(rule)) is not None:
        # It stays: it may be about an action that nobody knows here.
        floor = replace(slip.meant, verdict="ask", reason=_BROKEN, match=(), not_match=())
        is_allowing = rule.verdict == "allow"
        fate = "it is left out" if is_allowing else f"the rule stays, and `{floor}` besides"
        problems.append(Problem(where(slip.field), f"{slip.message}; {fate}"))
        rules.extend([] if is_allowing else [rule, floor])
        return
    failed = check_examples(rule) if rule.match or rule.not_match else []
    if not failed:
        rules.append(rule)
        return
    floor = _floor(entry, where(None))
    fate = "the rule is left out" if floor is None else f"the rule stays, and `{floor}` besides"
    problems += [problem._replace(message=f"{problem.message}; {fate}") for problem in failed]
    rules.extend([] if floor is None else [rule, floor])


def _rule(entry: object, where: str) -> Rule:
    if not isinstance(entry, Mapping):
        raise RuleError(f"the entry is {_kind(entry)}, not a mapping with a verdict")
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        raise RuleError(f"the key {unknown[0]!r} is not known: use {', '.join(_KEYS)}", _text(unknown[0]))
    verdict = entry.get("verdict")
    if verdict not in ("allow", "ask", "deny"):
        raise RuleError(f"the verdict is {verdict!r}: use allow, ask or deny", "verdict")
    reason = entry.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise RuleError(f"the reason is {_kind(reason)}, not a text", "reason")
    for key in _PATTERNS:
        # Written and left empty is not the same as left out: nobody means "any" by it.
        if key in entry and entry[key] is None:
            raise RuleError(f"{key} is empty: leave it out to mean any", key)
    patterns: dict[str, Any] = {key: entry.get(key) for key in _PATTERNS}
    kind = next((key for key in ("command", "path", "host") if patterns[key] is not None), None)
    return Rule(
        cast(Verdict, verdict),
        **patterns,
        reason=reason or "",
        match=_examples(entry.get("match"), "match", kind),
        not_match=_examples(entry.get("not_match"), "not_match", kind),
        where=where,
    )


def _examples(value: object, key: str, kind: str | None) -> tuple[Example, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise RuleError(f"{key} is {_kind(value)}, not a list of examples", key)
    return tuple(_example(example, key, kind) for example in value)


def _example(value: object, key: str, kind: str | None) -> Example:
    if isinstance(value, str) and value:
        return Example(**{kind or "action": value})
    if not isinstance(value, Mapping) or not value:
        raise RuleError(f"the example {value!r} is neither a text nor a mapping", key)
    for name, text in value.items():
        if name not in Example._fields or not isinstance(text, str) or not text:
            raise RuleError(f"the example {dict(value)!r} may have texts under {', '.join(Example._fields)}", key)
    return Example(**value)


def _example_details(rule: Rule, example: Example) -> tuple[str, dict[str, Any]]:
    usual = "process.exec" if example.command else "filesystem.read" if example.path else "network.fetch"
    action = example.action or (rule.action if rule.action and "*" not in rule.action else usual)
    tool = example.tool or (rule.tool if rule.tool and "*" not in rule.tool else "")
    details: dict[str, Any] = {"tool_name": tool}
    if example.command is not None:
        details["command"] = example.command
    elif example.path is not None:
        details["path"] = example.path
    elif example.host is not None and "://" in example.host:
        details["tool_input"] = {"url": example.host}
    elif example.host is not None:
        details["host"] = example.host
    return action, details


def _floor(entry: object, where: str) -> Rule | None:
    """Return the rule that takes the place of a bad entry: none for one that would have allowed."""
    if not isinstance(entry, Mapping):
        return Rule("ask", reason=_BROKEN, where=where)
    if entry.get("verdict") == "allow":
        return None
    try:
        return Rule("ask", action=entry.get("action"), reason=_BROKEN, where=where)
    except RuleError:
        return Rule("ask", reason=_BROKEN, where=where)


def _kind(value: object) -> str:
    return {"NoneType": "empty", "str": "a text", "dict": "a mapping", "list": "a list"}.get(
        type(value).__name__, f"of type {type(value).__name__}"
    )


def _text(key: object) -> str | None:
    return key if isinstance(key, str) else None
