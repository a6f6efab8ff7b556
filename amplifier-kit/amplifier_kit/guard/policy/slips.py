"""Rules that can be read and yet can match nothing: blanks, quotes or backslashes that what is compared never has."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_kit.guard.policy.known_tools import ACTION_OF_MODULE, KNOWN_TOOLS, OF_OTHERS
from amplifier_kit.guard.policy.places import REFUSED
from amplifier_kit.guard.policy.rule import Rule, RuleError

ACTIONS: Final = ("filesystem.read", "filesystem.write", "process.exec", "network.fetch", "session.spawn", "mcp.call")
#: What actions of these kinds do not have, unless a tool of somebody else's gives it them.
_NEVER: Final = {"command": ("filesystem", "network", "session"), "host": ("filesystem", "process", "session")}
#: Between two commands. No program has such a word; of `|` and `;` that cannot be said.
_JOINS: Final = re.compile(r" (&&|\|\|) ")
_WILD: Final = re.compile(r"[*?\[]")
_BRACES: Final = re.compile(r"\{[^{}]*,[^{}]*\}")
_VARIABLE: Final = re.compile(r"\$(\w+|\{\w+\})(?=/|\Z)")
_CALL: Final = re.compile(r"(\w+)\(.*\)")


class Slip(NamedTuple):
    """What is wrong with a rule, at which key, and what its author may have meant."""

    message: str
    field: str
    meant: Rule


def slip_in(rule: Rule) -> Slip | None:
    """Return why a rule can match nothing, None when it can as far as anybody knows here."""
    checks = (_blanks, _command, _path, _path_of_others, _host, _action, _tool)
    return next((slip for check in checks if (slip := check(rule)) is not None), None)


def _blanks(rule: Rule) -> Slip | None:
    """Blanks at the ends, and two in a row in a command: it is compared with single blanks between its words."""
    for field in ("action", "tool", "path"):
        value = getattr(rule, field)
        if value is not None and value != value.strip():
            message = f"{field} {value!r} has a blank at its beginning or end (where it is meant, write '[ ]')"
            return Slip(message, field, _changed(rule, field, value.strip()))
    bare = "" if rule.command is None else re.sub(r"'[^']*'", "'", rule.command)
    if bare != " ".join(bare.split()):
        what = "two blanks in a row" if bare == bare.strip() else "a blank at its beginning or end"
        return _never(rule, f"command {rule.command!r} has {what}, which no command has")
    return None


def _command(rule: Rule) -> Slip | None:
    from amplifier_kit.guard.policy.matchable import example_command

    if rule.command is None:
        return None
    is_allowing = rule.verdict == "allow"
    example = example_command(rule.command, is_allowing=is_allowing)
    if example is None and re.search(r"[\"']", rule.command):
        why = "the shell's quotes are taken away, and words with blanks or quotes are compared in single quotes"
        return _never(rule, f"command {rule.command!r} matches nothing: {why}")
    if example is None:
        from amplifier_kit.guard.policy.shell import unreadable

        why = unreadable(rule.command) or "no command has this form"
        return _never(rule, f"command {rule.command!r} matches nothing: {why}")
    if not is_allowing:
        return None
    if _JOINS.search(rule.command):
        return _never(rule, f"command {rule.command!r} is more than one command: write a rule for each")
    if not _WILD.search(rule.command) and (reason := _not_understood(rule, example)):
        return _never(rule, f"command {rule.command!r} is allowed by no rule that names it: {reason}")
    return None


def _not_understood(rule: Rule, example: str) -> str:
    """Return why the only command that a rule without wildcards means is not allowed by it."""
    from amplifier_kit.guard.policy.facts import facts
    from amplifier_kit.guard.policy.part import parts_of

    found = facts("process.exec", {"command": example}, Path("/project"))
    return next((part.problem for part in parts_of(found) if part.problem), "")


def _never(rule: Rule, message: str) -> Slip:
    """Return the slip of a command, with what was meant: the command without its slip, if that can be told."""
    from amplifier_kit.guard.policy.matchable import example_command, tidied

    meant = tidied(rule.command or "")
    if example_command(meant, is_allowing=False) is None:
        return Slip(message, "command", replace(rule, command=None, match=(), not_match=()))
    hint = "" if meant == rule.command else f" (did you mean {meant!r}?)"
    return Slip(message + hint, "command", _changed(rule, "command", meant))


def _path(rule: Rule) -> Slip | None:
    pattern = rule.path or ""
    if "://" in pattern:
        message = f"path {pattern!r} is an address, which no path is: a rule about addresses has a host"
        return Slip(message, "path", replace(rule, path=None, match=(), not_match=()))
    if "\\" in pattern:
        message = f"path {pattern!r} has a backslash: folders are parted by '/', and '[*]' stands for a star itself"
        return Slip(message, "path", _changed(rule, "path", pattern.replace("\\", "/")))
    refused = next((place for place in REFUSED if f"{pattern}/".startswith(f"{place}/")), None)
    if refused is not None and rule.verdict == "allow":
        message = f"path {pattern!r} is allowed by no rule: {refused} means something else to every process"
        return Slip(message, "path", rule)
    return None


def _path_of_others(rule: Rule) -> Slip | None:
    """What shells and other programs read in a pattern, and no rule does: it stands for itself, in names of files."""
    pattern = rule.path or ""
    if rule.path is None or rule.verdict == "allow":
        return None  # such files may exist, and what it does not match stays asked for
    if _BRACES.search(pattern):
        meant = _BRACES.sub(lambda found: "**" if "/" in found[0] else "*", pattern)
        message = f"path {pattern!r} has braces, which stand for themselves: write a rule for each of the names"
        return Slip(message, "path", _changed(rule, "path", meant))
    if variable := _VARIABLE.match(pattern):
        is_home = variable[1].strip("{}") == "HOME"
        meant = ("~" if is_home else "/**") + pattern[variable.end() :]
        hint = f" (did you mean {meant!r}?)" if is_home else ": write the folder itself"
        message = f"path {pattern!r} begins with a variable, which is not replaced{hint}"
        return Slip(message, "path", _changed(rule, "path", meant))
    if pattern.startswith("!"):
        message = f"path {pattern!r} begins with '!', which takes nothing back: write what the rule is about"
        return Slip(message, "path", replace(rule, path=None, match=(), not_match=()))
    if (rule.action or "").casefold() == "process.exec" and not pattern.strip("*/"):
        message = f"path {pattern!r} means the files of redirects in commands: a rule about all commands has no path"
        return Slip(message, "path", replace(rule, path=None, match=(), not_match=()))
    return None


def _host(rule: Rule) -> Slip | None:
    from amplifier_kit.guard.policy.hosts import is_address

    if rule.host is None or not rule.host.startswith("*.") or not is_address(rule.host[2:]):
        return None
    message = f"host {rule.host!r} matches nothing: nothing is below an address"
    return Slip(message, "host", replace(rule, host=rule.host[2:]))


def _action(rule: Rule) -> Slip | None:
    """Actions of other modules are not known here: only what is one letter from a known one is taken for a slip."""
    if rule.action is None:
        return None
    action = rule.action.casefold()
    tool = action.removeprefix("tool.") if action.startswith("tool.") else ""
    if rule.verdict != "allow" and (known := KNOWN_TOOLS.get(tool, action)) != action:
        message = f"the action {rule.action!r} is not that of the tool {tool!r} that ships, which is {known!r}"
        return Slip(message, "action", replace(rule, action=known, tool=rule.tool or tool))
    # A rule that restricts takes upper and lower case for the same.
    is_miscased = rule.verdict == "allow" and action in ACTIONS and rule.action not in ACTIONS
    meant = action if is_miscased else next((each for each in ACTIONS if _is_one_off(action, each)), None)
    if meant is not None:
        message = f"the action {rule.action!r} is not known (did you mean {meant!r}?)"
        return Slip(message, "action", replace(rule, action=meant))
    if rule.verdict == "allow":
        return None  # it may be about a tool that nobody knows here, and what it does not match stays asked for
    for key, kinds in _NEVER.items():
        kind, _, rest = action.partition(".")
        if getattr(rule, key) is not None and kind in kinds and (action in ACTIONS or rest == "*"):
            message = f"the action {rule.action!r} has no {key} in any tool that ships: leave the action out"
            return Slip(message, key, replace(rule, action=None))
    return None


def _tool(rule: Rule) -> Slip | None:
    """The id of a module, and what other agents call their tools: neither is the name of a tool here."""
    name = rule.tool or ""
    if name.startswith("tool-") and not _WILD.search(name):
        own = name.removeprefix("tool-").replace("-", "_")
        if (action := ACTION_OF_MODULE.get(name)) is not None:
            message = f"tool {name!r} is a module, not a tool (did you mean the action {action!r}?)"
            return Slip(message, "tool", replace(rule, tool=None, action=rule.action or action))
        message = f"tool {name!r} is a module, not a tool (did you mean {own!r}?)"
        return Slip(message, "tool", replace(rule, tool=own))
    call = _CALL.fullmatch(name)
    theirs = call[1] if call is not None else name
    meant = OF_OTHERS.get(theirs)
    if call is None and (meant is None or meant == name.casefold()):
        return None  # upper case is forgiven where a rule restricts, and what it fails to allow is asked for
    hint = "" if meant is None else f" (did you mean {meant!r}?)"
    what = "is of another program's form: what a tool is called with stands under 'command' or 'path'"
    message = f"tool {name!r} {what if call is not None else 'is the name in another program'}{hint}"
    return Slip(message, "tool", replace(rule, tool=meant))


def _changed(rule: Rule, field: str, value: str) -> Rule:
    """Return a rule with another pattern, or without it where the other one is none."""
    try:
        return replace(rule, **{field: value})  # type: ignore[arg-type]
    except RuleError:
        return replace(rule, **{field: None})  # type: ignore[arg-type]


def _is_one_off(text: str, known: str) -> bool:
    """Tell whether one letter is missing, too many, another, or has changed places with the next."""
    if text == known or abs(len(text) - len(known)) > 1 or "*" in text or "?" in text or "[" in text:
        return False
    start = next((at for at, (one, other) in enumerate(zip(text, known, strict=False)) if one != other), None)
    if start is None:
        return True
    rest, wanted = text[start:], known[start:]
    is_swapped = rest[:2] == wanted[1::-1] and rest[2:] == wanted[2:]
    return is_swapped or rest[1:] == wanted[1:] or rest[1:] == wanted or rest == wanted[1:]
