"""Read what a model has put into a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_core import ToolResult
from amplifier_kit.guard.files.place import FileError

__all__ = ["failure", "flag", "number", "path", "text"]


def path(tool_input: Mapping[str, Any]) -> str:
    """Return `file_path`; raise FileError when it is missing or no path."""
    given = tool_input.get("file_path")
    if not isinstance(given, str) or not given.strip():
        raise FileError("invalid_input", "file_path is required: the path of a file")
    return given


def text(tool_input: Mapping[str, Any], key: str) -> str:
    """Return a text, which may be empty but must be there; raise FileError otherwise."""
    given = tool_input.get(key)
    if not isinstance(given, str):
        raise FileError("invalid_input", f"{key} is required and must be a text, got {type(given).__name__}")
    return given


def number(tool_input: Mapping[str, Any], key: str, default: int) -> int:
    """Return a whole number of at least 1, also when a model wrote it as a text; raise FileError otherwise."""
    given = tool_input.get(key)
    if given is None:
        return default
    if isinstance(given, str) and given.strip().isdecimal():
        given = int(given)
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise FileError("invalid_input", f"{key} must be a whole number of at least 1, got {given!r}")
    return given


def flag(tool_input: Mapping[str, Any], key: str) -> bool:
    """Return true or false; raise FileError for anything else."""
    given = tool_input.get(key, False)
    if given is None:
        return False
    if not isinstance(given, bool):
        raise FileError("invalid_input", f"{key} must be true or false, got {given!r}")
    return given


def failure(error: FileError) -> ToolResult:
    """Return the result that tells a model what went wrong."""
    return ToolResult(success=False, output=error.message, error={"message": error.message, "code": error.code})
