"""Compile patterns when they are first needed: most programs start without ever needing most of them."""

from __future__ import annotations

import re
from functools import cache


@cache
def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return the compiled pattern; only for the few sources that are written in this package."""
    return re.compile(source, flags)
