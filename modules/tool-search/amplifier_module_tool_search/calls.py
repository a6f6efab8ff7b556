"""Read and check the input of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_search.config import GlobConfig, GrepConfig
from amplifier_module_tool_search.file_types import file_patterns, known_types
from amplifier_module_tool_search.glob_pattern import Glob, GlobError, is_literal

_MAX_PATTERN: Final = 10_000
_MODES: Final = ("files_with_matches", "content", "count")
_KINDS: Final = ("file", "dir", "any")
_FLAGS: Final = {"true": True, "false": False}


class SearchError(Exception):
    """A search failed, or its result would be unreliable; the tool returns the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class GrepCall(NamedTuple):
    """One call of grep. `limit` None: no limit."""

    pattern: str
    path: str
    mode: str
    ignore_case: bool
    line_numbers: bool
    before: int
    after: int
    glob: Glob | None
    is_glob_negated: bool
    #: Patterns for file names of the requested type.
    names: tuple[str, ...]
    multiline: bool
    limit: int | None
    offset: int
    include_ignored: bool

    @classmethod
    def read(cls, given: Mapping[str, Any], settings: GrepConfig) -> GrepCall:
        """Read the input; raise SearchError for an invalid one."""
        mode = _choice(given, "output_mode", _MODES)
        around = _number(given, "-C")
        glob = _text(given, "glob")
        name = _text(given, "type")
        limit = _number(given, "head_limit")
        call = cls(
            pattern=_pattern(given),
            path=_text(given, "path") or "",
            mode=mode,
            ignore_case=_flag(given, "-i", False),
            line_numbers=_flag(given, "-n", True),
            before=_first(_number(given, "-B"), around, 0),
            after=_first(_number(given, "-A"), around, 0),
            glob=_parse_glob("glob", glob.removeprefix("!"), any_depth=True) if glob else None,
            is_glob_negated=bool(glob and glob.startswith("!")),
            names=_names_of_type(name) if name else (),
            multiline=_flag(given, "multiline", False),
            limit=getattr(settings.default_limits, mode) if limit is None else limit or None,
            offset=_number(given, "offset") or 0,
            include_ignored=_flag(given, "include_ignored", False),
        )
        if not call.multiline and _has_line_break(call.pattern):
            raise SearchError("invalid_pattern", "the pattern contains a line break, which needs multiline: true")
        return call


class GlobCall(NamedTuple):
    """One call of glob. `is_path_shown`: whether the path is the input's, and not part of its pattern."""

    pattern: str
    path: str
    is_path_shown: bool
    kind: str
    glob: Glob
    excluded: tuple[Glob, ...]
    include_ignored: bool
    limit: int

    @classmethod
    def read(cls, given: Mapping[str, Any], settings: GlobConfig) -> GlobCall:
        """Read the input; raise SearchError for an invalid one."""
        pattern = _pattern(given)
        path, rest = _split_base(pattern)
        exclude = given.get("exclude")
        exclude = [exclude] if isinstance(exclude, str) else exclude or []
        if not isinstance(exclude, (list, tuple)) or not all(isinstance(one, str) for one in exclude):
            raise SearchError("invalid_input", f"exclude must be a list of patterns, got {exclude!r}")
        return cls(
            pattern=pattern,
            path=_joined(_text(given, "path") or "", path),
            is_path_shown=not path,
            kind=_choice(given, "type", _KINDS),
            glob=_parse_glob("pattern", rest),
            excluded=tuple(_parse_glob("exclude", one, any_depth=True) for one in exclude if one),
            include_ignored=_flag(given, "include_ignored", False),
            limit=settings.max_results,
        )


def _names_of_type(name: str) -> tuple[str, ...]:
    try:
        return file_patterns(name)
    except KeyError:
        known = ", ".join(known_types())
        raise SearchError("unknown_type", f"unknown file type {name!r}; known are {known}. Or use glob.") from None


def _parse_glob(key: str, pattern: str, *, any_depth: bool = False) -> Glob:
    """Read a glob pattern; raise SearchError."""
    try:
        return Glob.parse(pattern, any_depth=any_depth)
    except GlobError as error:
        raise SearchError("invalid_pattern", f"invalid {key} {pattern!r}: {error}") from None


def _split_base(pattern: str) -> tuple[str, str]:
    """Split a pattern that leaves its base, absolute or by .., into a folder and a pattern below it."""
    if not pattern.startswith(("/", "~", "../")) and "/../" not in pattern:
        return "", pattern
    names = pattern.split("/")
    place = next((number for number, name in enumerate(names) if not is_literal(name)), len(names) - 1)
    return "/".join(names[:place]) or "/", "/".join(names[place:]) or "*"


def _joined(path: str, further: str) -> str:
    if not path or not further or further.startswith(("/", "~")):
        return further or path
    return f"{path}/{further}"


def _pattern(given: Mapping[str, Any]) -> str:
    pattern = given.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        raise SearchError("invalid_input", "pattern is missing: it must be text that is not empty")
    if len(pattern) > _MAX_PATTERN or "\0" in pattern:
        raise SearchError("invalid_input", f"pattern must have at most {_MAX_PATTERN} characters, and no NUL")
    return pattern.encode("utf-8", "replace").decode("utf-8")


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise SearchError("invalid_input", f"{key} must be text, got {value!r}")
    return value


def _choice(given: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str:
    value = given.get(key) or choices[0]
    if value not in choices:
        raise SearchError("invalid_input", f"{key} must be one of {', '.join(choices)}, got {value!r}")
    return str(value)


def _flag(given: Mapping[str, Any], key: str, default: bool) -> bool:
    value = given.get(key)
    value = default if value is None else _FLAGS.get(value.lower(), value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise SearchError("invalid_input", f"{key} must be true or false, got {value!r}")
    return value


def _number(given: Mapping[str, Any], key: str) -> int | None:
    value = given.get(key)
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31):
        raise SearchError("invalid_input", f"{key} must be a whole number of at least 0, got {value!r}")
    return value


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _has_line_break(pattern: str) -> bool:
    if "\n" in pattern:
        return True
    place = pattern.find("\\")
    while 0 <= place < len(pattern) - 1:
        if pattern[place + 1] == "n":
            return True
        place = pattern.find("\\", place + 2)
    return False
