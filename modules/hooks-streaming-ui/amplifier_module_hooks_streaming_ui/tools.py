"""Turn tool calls and their results into lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from amplifier_module_hooks_streaming_ui.screen import Line

_INDENT: Final = "    "
_WIDTH: Final = 160
_SUMMARY: Final = 60


def call_lines(name: str, tool_input: Any, limit: int | None) -> list[Line]:
    """Return the lines of a call: the tool's name, and its input on at most `limit` lines."""
    return [Line(f"▶ {name}", "call"), *_details(tool_input, limit)]


def result_lines(
    name: str, tool_input: Any, result: Any, limit: int | None, *, duration_ms: Any = None, failed: bool = False
) -> list[Line]:
    """Return the lines of a result: success, call and duration, then the first lines of the content."""
    title = " ".join(part for part in (name, _summary(tool_input), _duration(duration_ms)) if part)
    title_line = Line(f"✘ {title}", "bad") if failed else Line(f"✔ {title}", "good")
    return [title_line, *_details(_content(result), limit)]


def failure_line(name: str, error: Any, duration_ms: Any) -> Line:
    """Return the line of a call that failed without a result."""
    details = error if isinstance(error, Mapping) else {"msg": error}
    said = [str(details[key]) for key in ("type", "msg") if details.get(key)]
    title = " ".join(part for part in (name, _duration(duration_ms)) if part)
    return Line(_shorten(f"✘ {title}: {': '.join(said) or 'failed'}", _WIDTH), "bad")


def is_failure(result: Any) -> bool:
    """Return whether a result reports that the tool failed."""
    return isinstance(result, Mapping) and result.get("success") is False


def _content(result: Any) -> Any:
    """Return the output of a result, else its error, else its content."""
    if not isinstance(result, Mapping) or "success" not in result:
        return result
    if result.get("output") is not None:
        return result["output"]
    error = result.get("error")
    if error:
        return error.get("message", error) if isinstance(error, Mapping) else error
    return result.get("content")


def _details(value: Any, limit: int | None) -> list[Line]:
    if limit == 0:
        return []
    lines = _value_lines(value)
    shown = lines[:limit]
    details = [Line(f"{_INDENT}{_shorten(line, _WIDTH)}", "faint") for line in shown]
    if len(lines) > len(shown):
        details.append(Line(f"{_INDENT}… {len(lines) - len(shown)} more lines", "faint"))
    return details


def _value_lines(value: Any) -> list[str]:
    """Return a value as lines: texts as they are, fields one by one, anything else as JSON."""
    if value is None or value == {} or value == []:
        return []
    if isinstance(value, str):
        return value.rstrip().splitlines()
    if not isinstance(value, Mapping):
        return [_json(value)]
    lines = []
    for key, field in value.items():
        first, *more = (_value_lines(field) if isinstance(field, str) else [_json(field)]) or [""]
        lines += [f"{key}: {first}", *(f"  {line}" for line in more)]
    return lines


def _summary(tool_input: Any) -> str:
    """Return a summary that distinguishes this call from others of the tool: the first text in its input."""
    values = tool_input.values() if isinstance(tool_input, Mapping) else ()
    for value in values:
        if isinstance(value, str) and value.strip():
            return _shorten(value.split("\n", 1)[0].strip() or value.split()[0], _SUMMARY)
    return ""


def _duration(duration_ms: Any) -> str:
    if isinstance(duration_ms, bool) or not isinstance(duration_ms, (int, float)):
        return ""
    return f"({duration_ms:.0f} ms)" if duration_ms < 1000 else f"({duration_ms / 1000:.1f} s)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
