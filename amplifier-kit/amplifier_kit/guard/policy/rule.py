"""A rule: a verdict on actions, by glob patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from amplifier_kit.guard.policy.glob import check_classes

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

#: Longer patterns are refused: nobody reads them, and each is tried on every action.
MAX_PATTERN = 2_000
MAX_WILDCARDS = 40

_CONTROL = re.compile("[\x00-\x1f\ud800-\udfff]")
#: A folder's name may have bytes that are no text: rules of the program's own name such folders.
_CONTROL_IN_PATH = re.compile("[\x00-\x1f\ud800-\udc7f\udd00-\udfff]")


class RuleError(ValueError):
    """A rule that says nothing or contradicts itself; `field` is the key to look at."""

    code = "policy.rule"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Example(NamedTuple):
    """An action that a rule is tried on when it is loaded; what is None is taken from the rule."""

    command: str | None = None
    path: str | None = None
    host: str | None = None
    action: str | None = None
    tool: str | None = None


@dataclass(frozen=True)
class Rule:
    """A verdict on what matches every pattern it names.

    `command`, `path` and `host` exclude one another. A rule without any of them covers its action or tool whatever
    it does. In `command`, `*` stands for any text and a final ` *` also for no arguments at all; in `path`, `*` stays
    within a folder and `**` does not, relative paths are the project's; a rule that restricts a folder by its name
    covers what lies below, unless it `is_exact`; `host` is a name, `*.` and a name, or `*`.

    Raises:
        RuleError: When a pattern is empty, too long or of a wrong form, or when two kinds are named at once.
    """

    verdict: Verdict
    action: str | None = None
    tool: str | None = None
    command: str | None = None
    path: str | None = None
    host: str | None = None
    reason: str = ""
    match: tuple[Example, ...] = ()
    not_match: tuple[Example, ...] = ()
    where: str = ""
    is_exact: bool = False

    def __post_init__(self) -> None:
        if self.verdict not in ("allow", "ask", "deny"):
            raise RuleError(f"the verdict {self.verdict!r} is not allow, ask or deny", "verdict")
        for field in ("action", "tool", "command", "path", "host"):
            _check_pattern(field, getattr(self, field))
        kinds = [field for field in ("command", "path", "host") if getattr(self, field) is not None]
        if len(kinds) > 1:
            raise RuleError(f"{' and '.join(kinds)} exclude one another: write one rule for each", kinds[1])
        if self.path is not None:
            _check_path(self.path)
        if self.host is not None:
            _check_host(self.host)

    @property
    def is_specific(self) -> bool:
        """Whether it names a command, a path or a host: then it never allows what is not understood."""
        return self.command is not None or self.path is not None or self.host is not None

    def __str__(self) -> str:
        parts: list[str] = [self.verdict]
        if self.action is not None:
            parts.append(self.action)
        elif not self.is_specific and self.tool is None:
            parts.append("everything")
        named = {field: getattr(self, field) for field in ("tool", "command", "path", "host")}
        return " ".join([*parts, *(f'{field} "{value}"' for field, value in named.items() if value is not None)])


def _check_pattern(field: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise RuleError(f"{field} is {value!r}, not a text: put it in quotes", field)
    if not value.strip():
        raise RuleError(f"{field} is empty: leave it out to mean any", field)
    if len(value) > MAX_PATTERN or value.count("*") > MAX_WILDCARDS:
        raise RuleError(
            f"{field} is longer than {MAX_PATTERN} characters or has more than {MAX_WILDCARDS} wildcards", field
        )
    if (_CONTROL_IN_PATH if field == "path" else _CONTROL).search(value):
        raise RuleError(f"{field} {value!r} contains control characters", field)
    try:
        check_classes(value)
    except re.error as error:
        raise RuleError(f"{field} {value!r} has an invalid class: {error.msg}", field) from error


def _check_path(pattern: str) -> None:
    parts = pattern.split("/")
    wild = next((index for index, part in enumerate(parts) if "*" in part or "?" in part or "[" in part), len(parts))
    if ".." in parts[wild:]:
        raise RuleError(f"path {pattern!r} goes up with '..' after a wildcard: it would match nothing", "path")
    if pattern.startswith("~") and parts[0] != "~":
        raise RuleError(f"path {pattern!r} names another user's home: write it as an absolute path", "path")


def _check_host(pattern: str) -> None:
    from amplifier_kit.guard.policy.hosts import HostError, normal_host

    if pattern == "*":
        return
    name = pattern.removeprefix("*.")
    if "*" in name or "?" in name:
        raise RuleError(f"host {pattern!r}: only '*' or '*.' and a name can stand for several hosts", "host")
    try:
        normal_host(name)
    except HostError as error:
        raise RuleError(f"host {pattern!r}: {error}", "host") from error
