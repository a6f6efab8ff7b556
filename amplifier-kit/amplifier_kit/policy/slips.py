"""Rules that can be read and yet can match nothing: a slip in an action, or a key that its actions never have."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from amplifier_kit.policy.rule import Rule

ACTIONS: Final = ("filesystem.read", "filesystem.write", "process.exec", "network.fetch", "session.spawn", "mcp.call")
#: What actions of these kinds do not have, unless a tool of somebody else's gives it them.
_NEVER: Final = {"command": ("filesystem", "network", "session"), "host": ("filesystem", "process", "session")}


class Slip(NamedTuple):
    """What is wrong with a rule, at which key, and what its author may have meant."""

    message: str
    field: str
    meant: Rule


def slip_in(rule: Rule) -> Slip | None:
    """Return why a rule can match nothing, None when it can as far as anybody knows here.

    Actions of other modules are not known here: only what is one letter away from a known one is taken for a slip.
    """
    if rule.action is None:
        return None
    action = rule.action.casefold()
    if (known := next((each for each in ACTIONS if _is_one_off(action, each)), None)) is not None:
        message = f"the action {rule.action!r} is not known (did you mean {known!r}?)"
        return Slip(message, "action", replace(rule, action=known))
    if rule.verdict == "allow":
        return None  # it may be about a tool that nobody knows here, and what it does not match stays asked for
    for key, kinds in _NEVER.items():
        kind, _, rest = action.partition(".")
        if getattr(rule, key) is not None and kind in kinds and (action in ACTIONS or rest == "*"):
            message = f"the action {rule.action!r} has no {key} in any tool that ships: leave the action out"
            return Slip(message, key, replace(rule, action=None))
    return None


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
