"""The formats in which the result of a run can be printed."""

from typing import Final

FORMATS: Final = ("text", "json", "json-trace", "stream-json")
