"""Paths: where they really lead, and whether a rule's pattern means them."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from amplifier_kit.guard.policy.glob import compiled, escaped, literal_prefix

MAX_LINKS = 40
MAX_LENGTH = 4_096
#: Names there lead elsewhere for each process that asks.
REFUSED = ("/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/sys/fs/fuse")
_TRAILING = re.compile(r"(?<=[^/. ])[. ]+(?=/|\Z)")


class PlaceError(ValueError):
    """A path that cannot be judged."""

    code = "policy.path"


def spelled(text: str, base: Path) -> Path:
    """Return a path as it was written, absolute, without following anything.

    Raises:
        PlaceError: When it is empty, too long, or contains characters that no path has.
    """
    if not text or len(text) > MAX_LENGTH:
        raise PlaceError("the path is empty or too long")
    if "\0" in text or any(0xD800 <= ord(character) < 0xDC80 for character in text):
        raise PlaceError(f"the path {text!r} contains characters that no path has")
    if re.match(r"@[\w.-]+:", text):
        raise PlaceError(f"{text!r} names a bundle's file: which one, only the tool knows")
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    elif text.startswith("~"):
        raise PlaceError(f"{text!r} may mean another user's home")
    return Path(os.path.normpath(base / text))


def resolved(text: str, base: Path) -> Path:
    """Return where a path leads, every link followed; what does not exist yet is taken as it is written.

    Raises:
        PlaceError: As `spelled`, and when it leads through /proc or /dev/fd, or in circles.
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
            raise PlaceError(f"{text!r} leads through {there}, which means something else to every process")
        try:
            target = os.readlink(there)
        except (OSError, ValueError):
            # No link, or nothing there: the name stands for itself.
            here = there
            continue
        links += 1
        if links > MAX_LINKS:
            raise PlaceError(f"{text!r} leads through more than {MAX_LINKS} links")
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
    """Return the folded patterns that a restricting rule stands for.

    It restricts a place by every name, whether or not the place is a link, and, when it names a folder without
    wildcards and is not exact, everything below it.
    """
    if not is_exact and parts and literal_prefix(parts[-1]) == parts[-1]:
        parts = (*parts, "**")
    return {tuple(map(folded, form)) for form in (parts, followed(parts))}


def _plain(part: str) -> str | None:
    """Return the text that a part of a pattern stands for, when it stands for one only."""
    text = re.sub(r"\[([*?\[])\]", r"\1", part)
    return text if escaped(text) == part else None


def prefix_of(parts: tuple[str, ...]) -> str:
    """Return what every path that matches starts with; ends before the first part with a wildcard."""
    plain: list[str] = []
    for part in parts:
        if literal_prefix(part) != part:
            break
        plain.append(part)
    return "/" + "/".join(plain)


def folded(text: str) -> str:
    """Return a path's text as the most forgiving file system reads it: for rules that restrict."""
    visible = "".join(character for character in text if unicodedata.category(character) != "Cf")
    # Some file systems take `.git.` and `.git ` for `.git`.
    return _TRAILING.sub("", unicodedata.normalize("NFKC", visible).casefold())


def path_matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Tell whether a path's parts are those of a pattern; `**` stands for any number of parts, also none."""
    at = mark = 0
    star: int | None = None
    for _ in range((len(pattern) + 1) * (len(path) + 1) + 1):
        if at == len(path):
            break
        if mark < len(pattern) and pattern[mark] == "**":
            star, kept = mark, at
            mark += 1
        elif mark < len(pattern) and compiled(pattern[mark]).match(path[at]):
            mark += 1
            at += 1
        elif star is not None:
            kept += 1
            mark, at = star + 1, kept
        else:
            return False
    return at == len(path) and all(part == "**" for part in pattern[mark:])
