"""Rules from the entries of a policy file, and the mistakes in them.

An entry that cannot be read, contradicts its examples or can match nothing never makes the policy weaker: one that
restricts stays, or asks instead.
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

from amplifier_kit.guard.policy.facts import KNOWN_TOOLS, facts, parts_of
from amplifier_kit.guard.policy.paths import REFUSED, tokens
from amplifier_kit.guard.policy.rules import Example, Rule, RuleError, RuleSet, Verdict
from amplifier_kit.guard.policy.segments import HOLE, Segment, spans_commands, unreadable
from amplifier_kit.named_tuple import NamedTuple

# --- entries ---

_KEYS = ("action", "tool", "command", "path", "host", "verdict", "reason", "match", "not_match")
_PATTERNS = ("action", "tool", "command", "path", "host")
_BROKEN = "asks: a rule that should be here cannot be read"


class Problem(NamedTuple):
    """A mistake in one entry, its place, and the rule that holds instead."""

    where: str
    message: str


def parse_rules(data: object, where: Callable[[int, str | None], str]) -> tuple[list[Rule], list[Problem]]:
    """Return the rules of a file's `rules:` list and its problems; never raises, never fails open.

    `where(index, key)` names the file and line of an entry. A bad allow entry is left out; a bad deny or ask entry, or
    one whose verdict cannot be read, asks for its whole action instead, or for everything when that cannot be read.
    A rule that contradicts its own examples is bad, too, and so is one that can match nothing: one that restricts then
    stays as well.
    """
    if data is None:
        return [], []
    if not isinstance(data, list):
        place = where(0, None)
        floor = Rule("ask", reason=_BROKEN, where=place)
        return [floor], [Problem(place, f"rules is {_kind(data)}, not a list of entries: every action asks")]
    rules: list[Rule] = []
    problems: list[Problem] = []
    for index, entry in enumerate(data):
        _read(entry, lambda key, index=index: where(index, key), rules, problems)  # type: ignore[misc]
    return rules, problems


def check_examples(rule: Rule, project: Path = Path("/project")) -> list[Problem]:
    """Try a rule on its own examples; return one problem for each that it contradicts.

    An example matches when the rule alone gives its verdict on it.
    """
    alone = RuleSet([rule], project)
    problems: list[Problem] = []
    for examples, expected in ((rule.match, True), (rule.not_match, False)):
        for example in examples:
            action, details = _example_details(rule, example)
            decision = alone.decide(facts(action, details, project))
            if (decision.verdict == rule.verdict) is not expected:
                shown = example.command or example.path or example.host or example.action or example.tool
                verb = "does not match" if expected else "matches"
                problems.append(Problem(rule.where, f"`{rule}` {verb} its example {shown!r}: {decision.reason}"))
    return problems


def _read(entry: object, where: Callable[[str | None], str], rules: list[Rule], problems: list[Problem]) -> None:
    """Read one entry; a mistake in it affects no other."""
    try:
        rule = _rule(entry, where(None))
    except RuleError as error:
        floor = _floor(entry, where(None))
        fate = "it is left out" if floor is None else f"until it is fixed, `{floor}` takes its place"
        problems.append(Problem(where(error.field), f"{error}; {fate}"))
        rules.extend([] if floor is None else [floor])
        return
    floor = None
    if (mistake := find_mistake(rule)) is not None:
        found = [Problem(where(mistake.field), mistake.message)]
        if rule.verdict != "allow":
            floor = replace(mistake.meant, verdict="ask", reason=_BROKEN, match=(), not_match=())
    else:
        found = check_examples(rule) if rule.match or rule.not_match else []
        floor = _floor(entry, where(None)) if found else None
    # The rule stays where it restricts: it may be about an action that is unknown here.
    fate = "the rule is left out" if floor is None else f"the rule stays, and `{floor}` is added"
    problems += [problem._replace(message=f"{problem.message}; {fate}") for problem in found]
    rules.extend([rule] if not found else [] if floor is None else [rule, floor])


def _rule(entry: object, where: str) -> Rule:
    if not isinstance(entry, Mapping):
        raise RuleError(f"the entry is {_kind(entry)}, not a mapping with a verdict")
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        field = unknown[0] if isinstance(unknown[0], str) else None
        raise RuleError(f"unknown key {unknown[0]!r}: use {', '.join(_KEYS)}", field)
    reason = entry.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise RuleError(f"the reason is {_kind(reason)}, not a text", "reason")
    for key in _PATTERNS:
        # Empty is not the same as left out: no author means "any" by it.
        if key in entry and entry[key] is None:
            raise RuleError(f"{key} is empty: leave it out to mean any", key)
    patterns: dict[str, Any] = {key: entry.get(key) for key in _PATTERNS}
    kind = next((key for key in ("command", "path", "host") if patterns[key] is not None), None)
    return Rule(
        cast(Verdict, entry.get("verdict")),
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
    kind = next((key for key in ("command", "path", "host") if getattr(example, key) is not None), None)
    return action, {"tool_name": tool} | ({} if kind is None else {kind: getattr(example, kind)})


def _floor(entry: object, where: str) -> Rule | None:
    """Return the rule that replaces an invalid entry: none for one that would have allowed."""
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


# --- rules that can match nothing ---

ACTIONS: Final = ("filesystem.read", "filesystem.write", "process.exec", "network.fetch", "session.spawn", "mcp.call")
#: Actions of these kinds never have such a part, unless a third-party tool has them.
_NEVER: Final = {"command": ("filesystem", "network", "session"), "host": ("filesystem", "process", "session")}
#: The actions of a module's tools, if it has several or one of another name.
_ACTION_OF_MODULE: Final[Mapping[str, str]] = {
    "tool-filesystem": "filesystem.*",
    "tool-search": "filesystem.read",
    "tool-web": "network.fetch",
    "tool-mcp": "mcp.call",
    "tool-skills": "tool.load_skill",
}
#: Names of tools in the rules of another agent.
_FOREIGN_TOOLS: Final[Mapping[str, str]] = {
    "Bash": "bash",
    "Read": "read_file",
    "Write": "write_file",
    "Edit": "edit_file",
    "MultiEdit": "edit_file",
    "Grep": "grep",
    "Glob": "glob",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Task": "task",
}
#: Between two commands. No program has such a word; of `|` and `;` that cannot be said.
_JOINS: Final = re.compile(r" (&&|\|\|) ")
_WILD: Final = re.compile(r"[*?\[]")
_BRACES: Final = re.compile(r"\{[^{}]*,[^{}]*\}")
_VARIABLE: Final = re.compile(r"\$(\w+|\{\w+\})(?=/|\Z)")
_CALL: Final = re.compile(r"(\w+)\(.*\)")


class Mistake(NamedTuple):
    """A mistake in a rule, its key, and the rule that the author may have meant."""

    message: str
    field: str
    meant: Rule


def find_mistake(rule: Rule) -> Mistake | None:
    """Return why a rule can match nothing; None when it can, or when that is not known here."""
    checks = (_blanks, _command, _path, _host, _action, _tool)
    return next((mistake for check in checks if (mistake := check(rule)) is not None), None)


def _blanks(rule: Rule) -> Mistake | None:
    """Blanks at the ends, and two in a row in a command: it is compared with single blanks between its words."""
    for field in ("action", "tool", "path"):
        value = getattr(rule, field)
        if value is not None and value != value.strip():
            message = f"{field} {value!r} has a blank at its beginning or end (where it is meant, write '[ ]')"
            return Mistake(message, field, _changed(rule, field, value.strip()))
    bare = "" if rule.command is None else re.sub(r"'[^']*'", "'", rule.command)
    if bare != " ".join(bare.split()):
        what = "two blanks in a row" if bare == bare.strip() else "a blank at its beginning or end"
        return _never(rule, f"command {rule.command!r} has {what}, which no command has")
    return None


def _command(rule: Rule) -> Mistake | None:
    if rule.command is None:
        return None
    is_allowing = rule.verdict == "allow"
    example = example_command(rule.command, is_allowing=is_allowing)
    if example is None and re.search(r"[\"']", rule.command):
        why = "the shell removes its quotes, and words with blanks or quotes are compared in single quotes"
        return _never(rule, f"command {rule.command!r} matches nothing: {why}")
    if example is None:
        why = unreadable(rule.command) or "no command has this form"
        return _never(rule, f"command {rule.command!r} matches nothing: {why}")
    if not is_allowing:
        return None
    if _JOINS.search(rule.command):
        return _never(rule, f"command {rule.command!r} is more than one command: write a rule for each")
    if not _WILD.search(rule.command):  # there is one command that it means
        found = facts("process.exec", {"command": example}, Path("/project"))
        if reason := next((part.problem for part in parts_of(found) if part.problem), ""):
            return _never(rule, f"command {rule.command!r} is allowed by no rule that names it: {reason}")
    return None


def _never(rule: Rule, message: str) -> Mistake:
    """Return the mistake of a command; the rule meant is the one without it, if that is known."""
    meant = tidied(rule.command or "")
    if example_command(meant, is_allowing=False) is None:
        return Mistake(message, "command", replace(rule, command=None, match=(), not_match=()))
    hint = "" if meant == rule.command else f" (did you mean {meant!r}?)"
    return Mistake(message + hint, "command", _changed(rule, "command", meant))


def _path(rule: Rule) -> Mistake | None:
    pattern = rule.path or ""
    if "://" in pattern:
        message = f"path {pattern!r} is a URL, not a path: write a rule with a host"
        return Mistake(message, "path", replace(rule, path=None, match=(), not_match=()))
    if "\\" in pattern:
        message = f"path {pattern!r} has a backslash: separate folders by '/', and write '[*]' for a star itself"
        return Mistake(message, "path", _changed(rule, "path", pattern.replace("\\", "/")))
    refused = next((place for place in REFUSED if f"{pattern}/".startswith(f"{place}/")), None)
    if refused is not None and rule.verdict == "allow":
        message = f"path {pattern!r} is allowed by no rule: {refused} means something else to every process"
        return Mistake(message, "path", rule)
    # Shells and other programs give these a meaning; here they match themselves. Such files may exist, and what an
    # allowing rule does not match still asks.
    if rule.path is None or rule.verdict == "allow":
        return None
    if _BRACES.search(pattern):
        meant = _BRACES.sub(lambda found: "**" if "/" in found[0] else "*", pattern)
        message = f"path {pattern!r} has braces, which are not expanded: write a rule for each of the names"
        return Mistake(message, "path", _changed(rule, "path", meant))
    if variable := _VARIABLE.match(pattern):
        is_home = variable[1].strip("{}") == "HOME"
        meant = ("~" if is_home else "/**") + pattern[variable.end() :]
        hint = f" (did you mean {meant!r}?)" if is_home else ": write the folder itself"
        message = f"path {pattern!r} begins with a variable, which is not replaced{hint}"
        return Mistake(message, "path", _changed(rule, "path", meant))
    if pattern.startswith("!"):
        message = f"path {pattern!r} begins with '!', which does not negate: write the paths that the rule restricts"
        return Mistake(message, "path", replace(rule, path=None, match=(), not_match=()))
    if (rule.action or "").casefold() == "process.exec" and not pattern.strip("*/"):
        message = f"path {pattern!r} means the files of redirects in commands: a rule about all commands has no path"
        return Mistake(message, "path", replace(rule, path=None, match=(), not_match=()))
    return None


def _host(rule: Rule) -> Mistake | None:
    from amplifier_kit.guard.network import canonical_host, is_address

    if rule.host is None or not rule.host.startswith("*.") or not is_address(canonical_host(rule.host[2:])):
        return None
    message = f"host {rule.host!r} matches nothing: nothing is below an address"
    return Mistake(message, "host", replace(rule, host=rule.host[2:]))


def _action(rule: Rule) -> Mistake | None:
    """Actions of other modules are not known here: only one letter's difference from a known one is a mistake."""
    if rule.action is None:
        return None
    action = rule.action.casefold()
    tool = action.removeprefix("tool.") if action.startswith("tool.") else ""
    if rule.verdict != "allow" and (known := KNOWN_TOOLS.get(tool, action)) != action:
        message = f"the action of the tool {tool!r} is {known!r}, not {rule.action!r}"
        return Mistake(message, "action", replace(rule, action=known, tool=rule.tool or tool))
    # A rule that restricts takes upper and lower case for the same.
    is_miscased = rule.verdict == "allow" and action in ACTIONS and rule.action not in ACTIONS
    meant = action if is_miscased else next((each for each in ACTIONS if _is_one_off(action, each)), None)
    if meant is not None:
        message = f"unknown action {rule.action!r} (did you mean {meant!r}?)"
        return Mistake(message, "action", replace(rule, action=meant))
    if rule.verdict == "allow":
        return None  # it may be about a tool that is unknown here; if it is not, it allows nothing
    for key, kinds in _NEVER.items():
        kind, _, rest = action.partition(".")
        if getattr(rule, key) is not None and kind in kinds and (action in ACTIONS or rest == "*"):
            message = f"the action {rule.action!r} never has a {key}: leave the action out"
            return Mistake(message, key, replace(rule, action=None))
    return None


def _tool(rule: Rule) -> Mistake | None:
    """The id of a module, and names of tools in other agents: neither is the name of a tool here."""
    name = rule.tool or ""
    if name.startswith("tool-") and not _WILD.search(name):
        own = name.removeprefix("tool-").replace("-", "_")
        if (action := _ACTION_OF_MODULE.get(name)) is not None:
            message = f"tool {name!r} is a module, not a tool (did you mean the action {action!r}?)"
            return Mistake(message, "tool", replace(rule, tool=None, action=rule.action or action))
        message = f"tool {name!r} is a module, not a tool (did you mean {own!r}?)"
        return Mistake(message, "tool", replace(rule, tool=own))
    call = _CALL.fullmatch(name)
    theirs = call[1] if call is not None else name
    meant = _FOREIGN_TOOLS.get(theirs)
    if call is None and (meant is None or meant == name.casefold()):
        return None  # a rule that restricts ignores case, and one that allows fails safely
    hint = "" if meant is None else f" (did you mean {meant!r}?)"
    what = "is written as for another agent: put the tool's arguments under 'command' or 'path'"
    message = f"tool {name!r} {what if call is not None else 'is a name of another agent'}{hint}"
    return Mistake(message, "tool", replace(rule, tool=meant))


def _changed(rule: Rule, field: str, value: str) -> Rule:
    """Return a rule with another pattern, or without it where the other one is invalid."""
    try:
        return replace(rule, **{field: value})  # type: ignore[arg-type]
    except RuleError:
        return replace(rule, **{field: None})  # type: ignore[arg-type]


def _is_one_off(text: str, known: str) -> bool:
    """Return whether one letter is missing, added, wrong, or swapped with the next."""
    if text == known or _WILD.search(text):
        return False
    pairs = enumerate(zip(text, known, strict=False))
    start = next((at for at, (one, other) in pairs if one != other), min(len(text), len(known)))
    rest, wanted = text[start:], known[start:]
    is_swapped = rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:]
    return is_swapped or rest[1:] in (wanted[1:], wanted) or rest == wanted[1:]


# --- commands that a pattern matches ---

#: What a single character of a pattern may be, the most ordinary ones first.
_CHARACTERS: Final = "".join(sorted(string.printable[:95], key=lambda each: (each in " '\"\\", not each.isalnum())))
_QUOTED: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'")
#: A word of a line as an allowing rule sees it: only one with blanks or quotes, or an empty one, is in quotes.
_WORD: Final = re.compile(r"'((?:[^']|'\\'')*)'(?: |\Z)|([^ '\"]+)(?: |\Z)")


def example_command(pattern: str, *, is_allowing: bool) -> str | None:
    """Return a shell line that a pattern for commands matches; None when none is found.

    The stars of the pattern are filled in the few ways that matter. Odd words, such as `' rm'`, are not considered: no
    rule is meant for them.
    """
    patterns = [pattern[:-2], pattern] if pattern.endswith(" *") and pattern[:-2].strip() else [pattern]
    for each, star, alike in product(patterns, ("", "x", "x x", "'"), ("", " ")):
        line = "".join(star if one is None else _character(one, alike) for one in tokens(each))
        if unreadable(line):
            continue
        if words := _words(line):
            return shlex.join(words)
        if not is_allowing and spans_commands(each) and line == " ".join(line.split()):
            return line
    return None


def tidied(pattern: str) -> str:
    """Return a pattern with single blanks, and quotes as in the lines that it is matched with."""

    def quoted(found: re.Match[str]) -> str:
        text = found[1] if found[1] is not None else found[2]
        return f"'{text}'" if not text or re.search(r"[ \"]", text) else text

    return " ".join(_QUOTED.sub(quoted, pattern).split())


def _character(one: re.Pattern[str], preferred: str) -> str:
    """Return a character that a one-character pattern matches; if none is found, a hole, which no command contains."""
    return next(filter(one.match, (*preferred, *_CHARACTERS, *one.pattern)), HOLE)


def _words(line: str) -> list[str]:
    """Return the words of a line in the form of an allowing rule; none when it has another form."""
    words: list[str] = []
    at = 0
    while (found := _WORD.match(line, at)) is not None:
        words.append(found[2] if found[1] is None else found[1].replace("'\\''", "'"))
        at = found.end()
    is_whole = at == len(line) and not line.endswith(" ") and words[:1] != [""]
    return words if is_whole and Segment(tuple(words), line).line == line else []
