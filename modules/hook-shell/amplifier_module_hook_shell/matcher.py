"""Decide which tools, or which other subjects, a hook is for.

A name matches exactly, and a list of names with `|` or `,` between them matches each. With `*` or `?`, and nothing else
that is special, it is a glob. Everything else is a regular expression for the whole name: a part of a name never
matches by accident.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Final

#: What other agents call the tools of ours, so that hooks that were written for those agents guard the same things.
ALIASES: Final = {
    "bash": ("Bash",),
    "read_file": ("Read",),
    "write_file": ("Write",),
    "edit_file": ("Edit", "MultiEdit"),
    "apply_patch": ("Edit", "MultiEdit", "Write"),
    "grep": ("Grep",),
    "glob": ("Glob",),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
    "todo": ("TodoWrite",),
    "task": ("Task", "Agent"),
    "delegate": ("Task", "Agent"),
    "load_skill": ("Skill",),
}
_LIMIT: Final = 1000
_NAMES: Final = r"[\w\-.: /]+(?:[|,][\w\-.: /]+)*"
_GLOB: Final = r"[\w\-: /*?|,]+"
_RULE: Final = r"\w+\((?:[^|)]*[ :*])[^)]*\)"
#: More than one repetition of something repeated: a regular expression that takes for ever.
_SLOW: Final = r"[*+}][^()|]*\)[*+{]"


class MatcherError(ValueError):
    """A matcher cannot be understood."""


class Matcher:
    """What a hook is for; an empty one, or `*`, is for everything."""

    def __init__(self, text: str = "") -> None:
        """Read a matcher; raise MatcherError that says what is wrong with it."""
        self.text = text.strip()
        self._test = _read(self.text)

    def matches(self, subject: str) -> bool:
        """Tell whether a hook is for this subject: a tool by our name or another agent's, or any other word."""
        return any(self._test(name) for name in (subject, *ALIASES.get(subject, ())))


def _read(text: str) -> Callable[[str], bool]:
    if text in ("", "*", ".*"):
        return lambda name: True
    if len(text) > _LIMIT:
        raise MatcherError(f"it has {len(text)} characters, more than {_LIMIT}")
    if re.fullmatch(_RULE, text):
        raise MatcherError(f"{text!r} looks like a rule about inputs; a matcher names tools only: look into tool_input")
    forms = [text, text.replace("__", "_")] if "mcp__" in text else [text]
    tests = [_test_of(form) for form in forms]
    return lambda name: any(test(name) for test in tests)


def _test_of(text: str) -> Callable[[str], bool]:
    if "." not in text and re.fullmatch(_NAMES, text):
        names = frozenset(name.strip() for name in re.split(r"[|,]", text))
        return lambda name: name in names
    if re.fullmatch(_GLOB, text):
        from fnmatch import translate

        patterns = [re.compile(translate(part.strip())) for part in re.split(r"[|,]", text) if part.strip()]
        return lambda name: any(pattern.match(name) for pattern in patterns)
    if re.search(_SLOW, text):
        raise MatcherError(f"{text!r} repeats a repetition, which may take for ever; write it without")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `[[` may mean something else one day
            pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise MatcherError(f"{text!r} is not a valid regular expression: {error}") from error
    return lambda name: pattern.fullmatch(name) is not None
