"""Say why a search cannot be done."""

from __future__ import annotations


class SearchError(Exception):
    """A search that cannot be done, or brought nothing that could be relied on; the tool answers with it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
