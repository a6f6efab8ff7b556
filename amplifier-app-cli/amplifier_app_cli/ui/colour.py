"""Let the user say when there are colours, over what the environment says."""

from __future__ import annotations

import os


def choose_colour(when: str) -> None:
    """Set the variables that everything which colours reads: `always`, `never`, or `auto` to leave them as they are."""
    if when == "never":
        os.environ["NO_COLOR"] = "1"
    elif when == "always":
        os.environ.pop("NO_COLOR", None)
        os.environ["FORCE_COLOR"] = "1"
