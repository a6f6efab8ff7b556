"""Patterns and paths: globs over text, where paths lead, whether a pattern means them, what a search leaves out."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amplifier_kit.guard.policy.rules import Rule

# --- globs, in linear time and with holes in the text ---

_WILD = re.compile(r"[*?\[]")
_CLASS = re.compile(r"\[(!?)([^\]/]+)\]")
_TOKEN = re.compile(r"\[!?[^\]/]+\]|\*+|[^*\[]+|\[")


def literal_prefix(pattern: str) -> str:
    """Return the part of a pattern before its first wildcard."""
    found = _WILD.search(pattern)
    return pattern if found is None else pattern[: found.start()]


def longest_text(pattern: str) -> str:
    """Return the longest text that every match of a pattern contains."""
    return max(re.split(r"[*?]|\[!?[^\]/]+\]", pattern), key=len)


def escaped(text: str) -> str:
    """Return a pattern that matches exactly this text."""
    return re.sub(r"([*?\[])", r"[\1]", text)


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern: `*` any text, `?` one character, `[abc]` and `[!abc]` one of a class.

    Only `*` matches a hole: whatever it is filled with, `*` matches that as well.
    """
    return re.compile(f"{_expression(pattern)}\\Z", re.DOTALL)


def _expression(pattern: str, *, never: str = "") -> str:
    """Return the expression of a pattern as text; the characters in `never` are matched by no wildcard."""
    first, *rest = (_chunk(chunk, never) for chunk in _between_stars(pattern))
    if not rest:
        return first
    any_one = f"[^{never}]" if never else "."
    # The first place where a chunk fits is as good as any later one: no need to ever come back to it.
    inner = "".join(f"(?>{any_one}*?{chunk})" for chunk in rest[:-1] if chunk)
    return f"{first}{inner}{any_one}*{rest[-1]}"


def check_classes(pattern: str) -> None:
    """Raise re.error for a pattern that cannot be compiled: all but a class can be.

    Most patterns are never needed: compiling them all would delay the start of a session.
    """
    if "[" in pattern:
        for found in _CLASS.finditer(pattern):
            _compiled_one(found[0])


def _between_stars(pattern: str) -> list[str]:
    """Return the parts of a pattern between its `*`; a star inside a class is literal."""
    chunks = [""]
    for token in _TOKEN.findall(pattern):
        if token.startswith("*"):
            chunks.append("")
        else:
            chunks[-1] += token
    return chunks


def tokens(pattern: str) -> list[re.Pattern[str] | None]:
    """Return the single characters of a pattern, in order, and None for each run of `*`."""
    found: list[re.Pattern[str] | None] = []
    for index, chunk in enumerate(_between_stars(pattern)):
        found += [None] * bool(index)
        found += [_compiled_one(one[0]) for one in re.finditer(r"\[!?[^\]/]+\]|.", chunk, re.DOTALL)]
    return found


@lru_cache(maxsize=1024)
def _compiled_one(token: str) -> re.Pattern[str]:
    return re.compile(f"{_chunk(token)}\\Z", re.DOTALL)


def _chunk(text: str, never: str = "") -> str:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        found = _CLASS.match(text, at)
        if found:
            body = found[2].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^").replace("&", "\\&")
            body = body.replace("~", "\\~").replace("|", "\\|").replace("--", "\\-\\-")
            pieces.append(f"(?![\\0{never}])[{'^' if found[1] else ''}{body}]")
            at = found.end()
            continue
        pieces.append(f"[^\\0{never}]" if text[at] == "?" else re.escape(text[at]))
        at += 1
    return "".join(pieces)


# --- where paths lead ---

MAX_LINKS = 40
MAX_LENGTH = 4_096
#: Names there lead elsewhere for each process that asks.
REFUSED = ("/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/sys/fs/fuse")
_TRAILING = re.compile(r"(?<=[^/. ])[. ]+(?=/|\Z)")


class PathError(ValueError):
    """A path that cannot be judged."""

    code = "policy.path"


def spelled(text: str, base: Path) -> Path:
    """Return a path as it was written, absolute, without following anything.

    Raises:
        PathError: When it is empty, too long, or contains characters that no path has.
    """
    if not text or len(text) > MAX_LENGTH:
        raise PathError("the path is empty or too long")
    if "\0" in text or any(0xD800 <= ord(character) < 0xDC80 for character in text):
        raise PathError(f"the path {text!r} contains characters that no path has")
    if re.match(r"@[\w.-]+:", text):
        raise PathError(f"{text!r} names a bundle's file: which one, only the tool knows")
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    elif text.startswith("~"):
        raise PathError(f"{text!r} may mean another user's home")
    return Path(os.path.normpath(base / text))


def resolved(text: str, base: Path) -> Path:
    """Return where a path leads, every link followed; parts that do not exist yet stay as they are written.

    Raises:
        PathError: As `spelled`, and when it leads through /proc or /dev/fd, or in circles.
    """
    spelled(text, base)
    text = os.path.expanduser(text) if text == "~" or text.startswith("~/") else text
    waiting = [part for part in os.path.join(base, text).split("/") if part not in ("", ".")][::-1]
    here, links = "/", 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, part)
        if any(there == refused or there.startswith(f"{refused}/") for refused in REFUSED):
            raise PathError(f"{text!r} leads through {there}, which means something else to every process")
        try:
            target = os.readlink(there)
        except (OSError, ValueError):
            # Not a link, or nothing there.
            here = there
            continue
        links += 1
        if links > MAX_LINKS:
            raise PathError(f"{text!r} leads through more than {MAX_LINKS} links")
        if target.startswith("/"):
            here = "/"
        waiting += [step for step in target.split("/") if step not in ("", ".")][::-1]
    return Path(here)


def pattern_parts(pattern: str, project: Path, home: Path | None) -> tuple[str, ...]:
    """Return a rule's pattern as absolute parts; the project and the home are taken as they really are."""
    is_folder = pattern.endswith("/")
    if pattern == "~" or pattern.startswith("~/"):
        base = home if home is not None else Path(os.path.expanduser("~"))
        pattern, root = pattern[2:], os.path.realpath(base)
    else:
        root = "/" if pattern.startswith("/") else os.path.realpath(project)
    wanted = f"{pattern}/**" if is_folder else pattern
    parts = [escaped(part) for part in root.split("/") if part]
    for part in wanted.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def followed(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return a pattern with the links in its plain beginning followed, for rules that restrict."""
    plain = 0
    while plain < len(parts) and _plain(parts[plain]) is not None:
        plain += 1
    start = "/" + "/".join(_plain(part) or "" for part in parts[:plain])
    return (*(escaped(part) for part in os.path.realpath(start).split("/") if part), *parts[plain:])


def restricted_forms(parts: tuple[str, ...], *, is_exact: bool) -> set[tuple[str, ...]]:
    """Return the folded patterns of a restricting rule.

    It restricts a place by every name, whether or not the place is a link, and, when it names a folder without
    wildcards and is not exact, everything below it.
    """
    if not is_exact and parts and literal_prefix(parts[-1]) == parts[-1]:
        parts = (*parts, "**")
    return {tuple(map(folded, form)) for form in (parts, followed(parts))}


def _plain(part: str) -> str | None:
    """Return the only text that a part of a pattern matches; None when it matches several."""
    text = re.sub(r"\[([*?\[])\]", r"\1", part)
    return text if escaped(text) == part else None


def prefix_of(parts: tuple[str, ...]) -> str:
    """Return the folder that contains every match: the parts before the first one with a wildcard."""
    plain: list[str] = []
    for part in parts:
        if literal_prefix(part) != part:
            break
        plain.append(part)
    return "".join(f"/{part}" for part in plain)


def folded(text: str) -> str:
    """Return a path's text as the most forgiving file system reads it: for rules that restrict."""
    if text.isascii():
        text = text.lower()
    else:
        visible = "".join(character for character in text if unicodedata.category(character) != "Cf")
        text = unicodedata.normalize("NFKC", visible).casefold()
    # Some file systems take `.git.` and `.git ` for `.git`. Most paths have nothing to cut, and that is seen faster.
    is_clean = text[-1:] not in (".", " ") and "./" not in text and " /" not in text
    return text if is_clean else _TRAILING.sub("", text)


@lru_cache(maxsize=4096)
def compiled_path(pattern: tuple[str, ...]) -> re.Pattern[str]:
    """Return the expression of a pattern's parts, for texts of `plain_path`; `**` matches any number, also none."""
    groups = [""]
    for part in pattern:
        if part == "**":
            groups.append("")
        else:
            groups[-1] += f"/{_expression(part, never='/')}"
    first, *rest = groups
    if rest:
        # As above: where a group of parts fits first is as good a place as any later one.
        inner = "".join(f"(?>.*?{group}(?=/|\\Z))" for group in rest[:-1] if group)
        first += f"(?=/|\\Z){inner}.*{rest[-1]}"
    return re.compile(f"{first}\\Z", re.DOTALL)


def plain_path(path: str) -> str:
    """Return an absolute path in the form that `compiled_path` is about: without empty parts."""
    return path.rstrip("/") if "//" not in path else "".join(f"/{part}" for part in path.split("/") if part)


# --- paths that rules hide from a search ---

_READ: Final = "filesystem.read"


class HiddenPaths:
    """Checks whether rules for a tool ask for a place or deny it, by its real path."""

    def __init__(self, rules: Iterable[Rule], project: Path, home: Path | None) -> None:
        self._rules = tuple(rules)
        self._project = project
        self._home = home
        forms = set[tuple[str, ...]]().union(
            *(
                restricted_forms(pattern_parts(rule.path, project, home), is_exact=rule.is_exact)
                for rule in self._rules
                if rule.path is not None
            )
        )
        patterns = [compiled_path(form).pattern for form in forms]
        # One expression, since a search asks for every file of a tree; without rules it matches nothing.
        self._restricted = re.compile("|".join(f"(?:{pattern})" for pattern in sorted(patterns)) or "(?!)", re.DOTALL)
        #: Of each pattern, the texts that every match contains.
        self._needed = [[longest_text(part) for part in form] for form in forms]

    def __call__(self, path: str) -> bool:
        """Return whether a rule asks for reading this place, or denies it."""
        return self._restricted.match(plain_path(folded(path))) is not None

    def may_hide(self, paths: str) -> bool:
        """Return False when a text, which contains whole paths, contains none that is hidden, nor one below it.

        It looks for the plain parts of patterns alone, in all paths at once: a search that hides nothing, as most do,
        need not ask for every file of a tree.
        """
        text = folded(paths)
        return any(all(part in text for part in parts) for parts in self._needed)

    def within(self, place: str) -> HiddenPaths | None:
        """Return the hidden paths below a place that a call was allowed to look at; None if nothing is hidden.

        A rule that asks for the place itself was answered with the call: it does not ask again for paths below.
        """
        where = (self._project, self._home)
        left = [rule for rule in self._rules if rule.verdict == "deny" or not HiddenPaths([rule], *where)(place)]
        return HiddenPaths(left, *where) if left else None


def hidden_paths(rules: Iterable[Rule], project: Path, tool: str, *, home: Path | None = None) -> HiddenPaths | None:
    """Return a check whether a rule asks for reading a place by `tool`, or denies it; None when no rule does.

    A search is allowed by the folder that it looks at. Paths below may be judged differently: the caller checks each
    path before it shows it, absolute and with all links followed. Rules that name no path are matched with the call as
    a whole, and hide nothing.
    """
    actions = (_READ, f"tool.{tool}")
    known = [rule for rule in rules if rule.verdict != "allow" and _fits(rule, actions, tool)]
    return HiddenPaths(known, project, home) if known else None


def _fits(rule: Rule, actions: tuple[str, ...], tool: str) -> bool:
    if rule.path is None or (rule.tool is not None and not compiled(rule.tool).match(tool)):
        return False
    return rule.action is None or any(compiled(rule.action).match(action) for action in actions)
