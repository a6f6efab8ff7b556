"""Show what a tool would do before it does it: the change of a file as a diff, everything else as its input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_PATH_KEYS: Final = ("file_path", "path", "file")
_CONTENT_KEYS: Final = ("content", "contents", "new_content", "file_text", "text")
_EDIT_KEYS: Final = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"))
#: Keys of an edit, all of which a diff tells.
_EDITING: Final = ("edits", "replace_all", *(key for pair in _EDIT_KEYS for key in pair))
#: Beyond this a comparison takes longer than a person wants to wait.
_MOST_CHARACTERS: Final = 1_000_000
_MOST_LINES: Final = 10_000


def preview(tool_input: Any, project: Path) -> list[str]:
    """Return the lines to show for a tool's input; those of a diff begin with `+`, `-`, `@` or a blank.

    What of the input a diff does not tell stands before it: a command with the path of a file beside it stays one.
    """
    if not isinstance(tool_input, Mapping) or not tool_input:
        return []
    path = _first(tool_input, _PATH_KEYS)
    content = _first(tool_input, _CONTENT_KEYS)
    edits = _edits(tool_input)
    if path is None or edits is None or (content is None and not edits):
        return _written(tool_input)
    told = {path, *_EDITING} if edits else {path, content}
    rest = {key: value for key, value in tool_input.items() if key not in told}
    change = _change(tool_input[path], tool_input[content] if content is not None else None, edits, project)
    return [*(_written(rest) if rest else ()), *change]


def _first(tool_input: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((key for key in keys if isinstance(tool_input.get(key), str)), None)


def _written(tool_input: Mapping[str, Any]) -> list[str]:
    return json.dumps(dict(tool_input), ensure_ascii=False, indent=2, default=str).split("\n")


def _change(path: str, content: str | None, edits: list[tuple[str, str, bool]], project: Path) -> list[str]:
    """Return the diff that a write or an edit amounts to."""
    old, problem = _read(path, project)
    if problem:
        return [f"{path}: {problem}", *_added(content, edits)]
    if edits:
        new = old or ""
        for before, after, everywhere in edits:
            if before not in new:
                return [f"{path}: the text to replace is not in the file", *_added(None, edits)]
            new = new.replace(before, after, -1 if everywhere else 1)
    else:
        new = content or ""
    return _diff(path, old, new)


def _edits(tool_input: Mapping[str, Any]) -> list[tuple[str, str, bool]] | None:
    """Return the edits of an input, empty when it has none; None when a diff could not tell all that they say."""
    several = tool_input.get("edits")
    if several is not None:
        found = [_edit(one) for one in several] if isinstance(several, list) else [None]
        is_alone = not set(_EDITING) & (set(tool_input) - {"edits"})
        return [one for one in found if one is not None] if is_alone and None not in found else None
    given = {key: tool_input[key] for key in _EDITING if key in tool_input}
    if not given:
        return []
    found = [_edit(given)]
    return [one for one in found if one is not None] if None not in found else None


def _edit(one: Any) -> tuple[str, str, bool] | None:
    """Return an edit, None for what is none or says more than a diff can tell."""
    if not isinstance(one, Mapping):
        return None
    for old, new in _EDIT_KEYS:
        is_whole = set(one) <= {old, new, "replace_all"} and isinstance(one.get("replace_all", False), bool)
        if is_whole and isinstance(one.get(old), str) and isinstance(one.get(new), str):
            return one[old], one[new], one.get("replace_all") is True
    return None


def _read(path: str, project: Path) -> tuple[str | None, str]:
    """Return the file as it is, None when there is none, or why it cannot be compared."""
    try:
        file = project / Path(path).expanduser()
        if not file.exists():
            return None, ""
        if not file.is_file():
            return None, "is no file"
        if file.stat().st_size > _MOST_CHARACTERS:
            return None, f"has {file.stat().st_size:,} bytes, too many to compare"
        content = file.read_bytes()
    except (OSError, RuntimeError, ValueError) as error:
        return None, f"cannot be read: {error}"
    if b"\0" in content:
        return None, "is no text"
    return content.decode("utf-8", "replace"), ""


def _diff(path: str, old: str | None, new: str) -> list[str]:
    import difflib

    before, after = _lines(old or ""), _lines(new)
    if old == new:
        return [f"{path}: nothing would change"]
    if len(before) + len(after) > _MOST_LINES or len(new) > _MOST_CHARACTERS:
        said = f"{path}: {len(before):,} lines now, {len(after):,} then: too many to compare, so all that will be there"
        return [said, *(f"+{line}" for line in after)]
    source = f"a/{path}" if old is not None else "(no such file yet)"
    lines = list(difflib.unified_diff(before, after, source, f"b/{path}", lineterm=""))
    return lines or [f"{path}: only the end of the file would change"]


def _lines(text: str) -> list[str]:
    """Return the lines of a text, at line feeds alone: whatever else ends a line somewhere is shown as what it is."""
    return text.removesuffix("\n").split("\n") if text else []


def _added(content: str | None, edits: list[tuple[str, str, bool]]) -> list[str]:
    if content is not None:
        return [f"+{line}" for line in _lines(content)]
    return [
        line
        for before, after, _ in edits
        for line in (*(f"-{text}" for text in _lines(before)), *(f"+{text}" for text in _lines(after)))
    ]
