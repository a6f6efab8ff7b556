"""The errors an app reports to its user: what is wrong, where, why, what to do next, and a code for machines."""

from __future__ import annotations

from typing import ClassVar


class FoundationError(Exception):
    """Something of the user's cannot be used; the text is ready to be shown, `code` is stable and documented."""

    code: ClassVar[str] = "foundation"


class DocumentError(FoundationError):
    """A YAML or Markdown file cannot be read or understood; the text starts with `file:line`."""

    code: ClassVar[str] = "file_invalid"


class PathNotFoundError(FoundationError):
    """A command names a file or folder that does not exist."""

    code: ClassVar[str] = "path_not_found"


def did_you_mean(given: object, known: list[str], otherwise: str | None = None) -> str:
    """Return a hint for an unknown name: the nearest known one, else the text `otherwise`, else all known names."""
    import difflib

    near = difflib.get_close_matches(str(given), known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(known)}" if otherwise is None else otherwise
