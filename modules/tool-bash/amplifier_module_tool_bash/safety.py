"""Prevent accidents: refuse the few commands that destroy a machine, according to the safety profile.

This is not a security boundary: that is the session's policy, which checks every call first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from amplifier_kit.guard.policy.commands import (
    SimpleCommand,
    TooDeepError,
    run_commands,
    simple_commands,
)
from amplifier_module_tool_bash.config import BashConfig

# What stands between the brackets has a bound: one that is not closed is not looked for to the end, again and again.
_FORK_BOMB: Final = re.compile(r"([\w:.]{1,50})\(\)\{(?:\1\|\1&?|\1&\1?)[^}]{0,200}\};?\1")
_SYSTEM: Final = frozenset(
    (
        *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt"),
        *("proc", "root", "sbin", "srv", "sys", "usr", "var"),
    )
)
_ENDLESS: Final = ("if=/dev/zero", "if=/dev/random", "if=/dev/urandom")

Check = Callable[[SimpleCommand, list[str]], str]


class Safety:
    """Decide about commands by the config alone."""

    def __init__(self, settings: BashConfig) -> None:
        self._denied = settings.denied_commands + settings.overrides("block")
        allowed = settings.overrides("allow")
        if settings.safety_profile in ("standard", "permissive"):
            allowed += settings.allowed_commands
        self._allowed = [_pattern(text, is_plain=True) for text in allowed]
        self._profile = settings.safety_profile

    def refusal(self, command: str) -> str:
        """Return why a command is not run; nothing when it may be."""
        try:
            commands = list(run_commands(simple_commands(command)))
        except TooDeepError:
            commands = []
            if self._profile != "unrestricted" or self._denied:
                return "it is nested too deeply to be looked at"
        text = command.strip()
        if denied := self._denied_by(text, commands):
            return f"it matches {denied!r}, which the configuration denies"
        if any(pattern.fullmatch(text) for pattern in self._allowed):
            return ""
        if self._profile == "unrestricted":
            return ""
        reason = next((found for found in self._findings(text, commands) if found), "")
        return f"safety profile {self._profile!r}: {reason}" if reason else ""

    def _denied_by(self, text: str, commands: Iterable[tuple[SimpleCommand, list[str]]]) -> str:
        """Return the pattern that denies a command or a part of it."""
        parts = {text, *(" ".join(words) for _, words in commands)}
        for denied in self._denied:
            pattern = _pattern(denied, is_plain=False)
            if denied in text or any(denied in part or pattern.fullmatch(part) for part in parts):
                return denied
        return ""

    def _findings(self, text: str, commands: Iterable[tuple[SimpleCommand, list[str]]]) -> Iterator[str]:
        if _FORK_BOMB.search(re.sub(r"\s+", "", text)):
            yield "a fork bomb"
        checks = _PERMISSIVE if self._profile == "permissive" else _STRICT
        for command, words in commands:
            for check in checks:
                yield check(command, words)


def _pattern(text: str, *, is_plain: bool) -> re.Pattern[str]:
    """Compile a pattern in which `*` matches anything; in a plain one, anything that cannot start another command."""
    anything = "[^;&|<>()`$\n\r]*" if is_plain else ".*"
    return re.compile(anything.join(map(re.escape, text.strip().split("*"))), re.DOTALL)


def _head(words: list[str]) -> str:
    return os.path.basename(words[0]) if words else ""


def _flags(words: list[str]) -> str:
    """Return the letters of all short options, long ones by their first letter."""
    return "".join(word[2:3] if word.startswith("--") else word[1:] for word in words[1:] if word.startswith("-"))


def _is_root(target: str) -> bool:
    path = re.sub(r"/\.?\*?$|/\.\*$", "/", re.sub(r"/(?:\./|/)+", "/", target))
    return path == "/" or (path.startswith("/") and os.path.normpath(path) in ("/", "//"))


def _is_system(target: str) -> bool:
    if _is_root(target):
        return True
    path = os.path.normpath(re.sub(r"/\*$", "", target))
    return path.startswith("/") and path.strip("/") in _SYSTEM


def _is_home(target: str) -> bool:
    path = re.sub(r"(?:/\*|/\.\*|/)+$", "", target)
    return path in ("~", "$HOME", "${HOME}", os.path.expanduser("~"))


def _removes_root(command: SimpleCommand, words: list[str]) -> str:
    if _head(words) != "rm" or not set(_flags(words)) & set("rR"):
        return ""
    return "removing the root of the file system" if any(map(_is_root, words[1:])) else ""


def _removes_system(command: SimpleCommand, words: list[str]) -> str:
    if _head(words) != "rm" or not set(_flags(words)) & set("rR"):
        return ""
    targets = [word for word in words[1:] if _is_system(word) or _is_home(word)]
    return f"removing {targets[0]} with all that is in it" if targets else ""


def _becomes_another(command: SimpleCommand, words: list[str]) -> str:
    head = _head(words)
    if head in ("sudo", "passwd"):
        return f"{head} asks a person, who is not there"
    if head == "su" and any(word.startswith("-") for word in words[1:]):
        return "su asks a person, who is not there"
    return ""


def _makes_file_system(command: SimpleCommand, words: list[str]) -> str:
    return "making a file system" if _head(words).startswith("mkfs") else ""


def _copies_endlessly(command: SimpleCommand, words: list[str]) -> str:
    return "dd from an endless device" if _head(words) == "dd" and set(words) & set(_ENDLESS) else ""


def _opens_system(command: SimpleCommand, words: list[str]) -> str:
    if _head(words) == "chmod" and {"777", "0777", "a+rwx"} & set(words) and any(map(_is_system, words[1:])):
        return "chmod 777 on a part of the system"
    if _head(words) == "chown" and "R" in _flags(words).replace("r", "R") and any(map(_is_system, words[1:])):
        return "chown -R on a part of the system"
    return ""


def _writes_to_device(command: SimpleCommand, words: list[str]) -> str:
    for target in command.targets:
        path = os.path.normpath(target) if target.startswith("/") else ""
        if path.startswith("/dev/") and path != "/dev/null":
            return f"writing to {path}"
    return ""


_PERMISSIVE: Final[tuple[Check, ...]] = (_removes_root,)
_STRICT: Final[tuple[Check, ...]] = (
    _removes_root,
    _removes_system,
    _becomes_another,
    _makes_file_system,
    _copies_endlessly,
    _opens_system,
    _writes_to_device,
)
