"""The error of a search."""

from __future__ import annotations


class SearchError(Exception):
    """A search failed, or its result would be unreliable; the tool returns the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
