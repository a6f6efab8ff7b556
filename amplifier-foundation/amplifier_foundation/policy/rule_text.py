"""Rules as people type them: `npm test`, `write src/**`, `fetch docs.python.org`, `tool mcp_notes_*`, `session.spawn`.

What `amplifier policy list` prints is understood too, and so is an entry of a policy file on one line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from amplifier_foundation.documents import parse_document
from amplifier_foundation.errors import DocumentError, FoundationError
from amplifier_kit.guard.policy.rule_parser import find_mistake, parse_rules
from amplifier_kit.guard.policy.rules import Rule, RuleError, Verdict

_VERDICTS: Final = ("allow", "ask", "deny")
_ACTION: Final = re.compile(r"(?:filesystem|process|network|session|mcp|tool)\.[A-Za-z0-9_.*-]+")
#: The first word of a rule that is not about a command, with the action that it means and what follows it.
_WORDS: Final = {
    "read": ("filesystem.read", "path"),
    "write": ("filesystem.write", "path"),
    "fetch": ("network.fetch", "host"),
    "tool": (None, "tool"),
    "command": ("process.exec", "command"),
    "path": (None, "path"),
    "host": (None, "host"),
    "action": (None, "action"),
}
#: Another spelling of these words, as in a policy file; read as a command it would be a rule about nothing.
_MISSPELT: Final = re.compile(rf"({'|'.join(_WORDS)})\s*[:=]")
#: A part of a rule as lists print it: `command "git push"`.
_PART: Final = re.compile(r'(tool|command|path|host) "(.*?)"(?= (?:tool|command|path|host) "|$)')
_HOW: Final = (
    "write a command (`npm test`, `git *`), `read PATH`, `write PATH`, `fetch HOST`, `tool NAME`, or an action such as "
    "`session.spawn`"
)


class RuleTextError(FoundationError):
    """A text is not a rule."""

    code = "policy_rule"


def parse_rule(text: str, verdict: Verdict) -> Rule:
    """Return the rule that a text means, with this verdict; raises RuleTextError.

    A text may begin with the verdict, as in a list of rules, if it is the same one.
    """
    given = text.strip()
    first, _, rest = given.partition(" ")
    if first in _VERDICTS and rest.strip():
        if first != verdict:
            raise RuleTextError(f"the rule {given!r} says {first}, and is to {verdict}: leave out the first word")
        given = rest.strip()
    if not given:
        raise RuleTextError(f"the rule is empty: {_HOW}")
    try:
        rule = Rule(verdict, **(_of_entry(given, verdict) if given.startswith("{") else _of_words(given)))
    except RuleError as error:
        raise RuleTextError(f"invalid rule {text!r}: {error}") from error
    if (mistake := find_mistake(rule)) is not None:
        raise RuleTextError(f"invalid rule {text!r}: {mistake.message}")
    return rule


def _of_entry(text: str, verdict: Verdict) -> dict[str, Any]:
    """Return the fields of an entry as policy files have it, on one line."""
    try:
        entry = parse_document(Path("the rule"), f"rule: {text}".encode()).data["rule"]
    except DocumentError as error:
        raise RuleTextError(f"the rule {text!r} is not a YAML mapping: {error}") from error
    rules, problems = parse_rules([{"verdict": verdict, **entry}], lambda index, key: "the rule")
    if problems:
        raise RuleTextError(f"invalid rule {text!r}: {problems[0].message.partition('; ')[0]}")
    if rules[0].verdict != verdict:
        raise RuleTextError(f"the rule {text!r} says {rules[0].verdict}, and is to {verdict}: leave out the verdict")
    names = ("action", "tool", "command", "path", "host", "reason", "match", "not_match")
    return {name: getattr(rules[0], name) for name in names}


def _of_words(text: str) -> dict[str, str]:
    if text == "everything":
        return {}
    if text == "*":
        raise RuleTextError("`*` may mean every command or every action: write `command *` or `everything`")
    if misspelt := _MISSPELT.match(text):
        value = text[misspelt.end() :].strip()
        raise RuleTextError(f"cannot read the rule {text!r}: write it as `{misspelt[1]} {value}`")
    word, _, rest = text.partition(" ")
    rest = rest.strip()
    fields: dict[str, str] = {}
    if _ACTION.fullmatch(word):
        fields, text = {"action": word}, rest
        if not rest:
            return fields
    parts = _PART.findall(text)
    if parts and " ".join(f'{name} "{value}"' for name, value in parts) == text:
        if len(dict(parts)) < len(parts):
            raise RuleTextError(f"the rule {text!r} has two patterns of one kind: write one rule for each")
        return {**fields, **dict(parts)}
    if fields:
        raise RuleTextError(f'unknown words after {word!r}: {rest!r}: expected, for example, `{word} path "src/**"`')
    if word in _WORDS and rest:
        action, field = _WORDS[word]
        value = rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] == '"' else rest
        if field == "tool" and len(value.split()) > 1:
            example = 'tool "bash" command "make *"'
            raise RuleTextError(f"a tool's name has no blanks, as {value!r} has: to add a pattern, write `{example}`")
        return {**({"action": action} if action else {}), field: _host(value) if field == "host" else value}
    return {"action": "process.exec", "command": text}


def _host(text: str) -> str:
    """Return the host of an address; a host as it is."""
    try:
        return urlsplit(text).hostname or text if "://" in text else text
    except ValueError:  # as of `http://[`: the rule says what is wrong with it
        return text


def describe(rule: Rule) -> str:
    """Return in plain words what a rule is about."""
    about = _subject(rule)
    return {
        "allow": f"allowed without asking: {about}",
        "ask": f"asked each time: {about}",
        "deny": f"denied: {about}",
    }[rule.verdict]


def _subject(rule: Rule) -> str:
    by = f", by the tool {rule.tool}" if rule.tool is not None else ""
    if rule.command is not None:
        command = rule.command
        if command == "*":
            return f"every command{by}"
        kind = "commands of the form" if set("*?[") & set(command) else "exactly the command"
        return f"{kind} `{command}`{by}"
    if rule.path is not None:
        verb = {"filesystem.read": "reading", "filesystem.write": "writing"}.get(rule.action or "", "using")
        return f"{verb} `{rule.path}`{by}"
    if rule.host is not None:
        return f"{'every host' if rule.host == '*' else f'the host {rule.host}'}{by}"
    if rule.action is not None:
        return f"{_ACTIONS.get(rule.action, f'the action {rule.action}')}{by}"
    if rule.tool is not None:
        return f"{'the tools' if '*' in rule.tool else 'the tool'} {rule.tool}, with any input"
    return "everything"


_ACTIONS: Final = {
    "filesystem.read": "reading any file",
    "filesystem.write": "writing any file",
    "filesystem.*": "reading and writing any file",
    "process.exec": "every command",
    "network.fetch": "fetching from any host",
    "session.spawn": "starting child sessions",
    "mcp.call": "calling any tool of any MCP server",
}


def example_of(rule: Rule) -> tuple[str, dict[str, Any]] | None:
    """Return an action that a rule is about, with its details; None if its patterns leave open which."""
    texts = [text for text in (rule.action, rule.tool, rule.command, rule.path, rule.host) if text is not None]
    if any(set("*?[") & set(text) for text in texts):
        return None
    details: dict[str, Any] = {"tool_name": rule.tool} if rule.tool is not None else {}
    if rule.command is not None:
        return rule.action or "process.exec", {**details, "command": rule.command}
    if rule.path is not None and rule.action is not None:
        return rule.action, {**details, "path": rule.path}
    if rule.host is not None:
        return "network.fetch", {**details, "tool_input": {"url": f"https://{rule.host}/"}}
    action = rule.action or (f"tool.{rule.tool}" if rule.tool is not None else None)
    return (action, details) if action is not None and not action.startswith("filesystem.") else None


def with_any_verdict(text: str) -> tuple[Rule, ...]:
    """Return the rules that a text may mean: with its own verdict if it names one, else with each; raises as above."""
    first = text.strip().partition(" ")[0]
    verdicts = (first,) if first in _VERDICTS and " " in text.strip() else _VERDICTS
    return tuple(parse_rule(text, cast(Verdict, verdict)) for verdict in verdicts)
