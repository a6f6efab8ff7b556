"""Find the lines of a module's own code in a traceback."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from amplifier_core.data import reason

#: How many of a module's own frames are shown: the last ones.
_MOST_FRAMES = 3
#: Our packages: their frames are on every stack.
_PACKAGES = ("amplifier_core", "amplifier_kit", "amplifier_foundation", "amplifier_app_cli")
_INSTALLED = ("site-packages", "dist-packages")


def location(error: BaseException) -> str | None:
    """Return file and line where a module's own code failed; None if none of it is on the stack."""
    for one in _causes(error):
        if isinstance(one, SyntaxError) and one.filename:
            return f"{one.filename}:{one.lineno}"
        if frames := _own_frames(one):
            return f"{frames[-1].filename}:{frames[-1].lineno}"
    return None


def frame_lines(error: BaseException) -> list[str]:
    """Return the last frames of a module's own code, as a traceback prints them; empty if it has none."""
    for one in _causes(error):
        if isinstance(one, SyntaxError) and one.filename:
            return "".join(traceback.format_exception_only(one)).splitlines()
        if frames := _own_frames(one):
            return "".join(traceback.format_list(frames[-_MOST_FRAMES:])).splitlines()
    return []


def error_record(error: BaseException) -> dict[str, str]:
    """Return an error as logs have it: type, message, and the whole traceback with its causes."""
    text = "".join(traceback.format_exception(error))
    return {"type": type(error).__name__, "message": reason(error), "traceback": text}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, the first cause first."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    yield from reversed(chain)


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]


@cache
def _is_own(file: str) -> bool:
    if file.startswith("<"):
        return False
    parts = Path(file).parts
    if any(part.startswith("amplifier_module_") for part in parts):
        return True
    if any(part in _INSTALLED for part in parts):
        return False
    return not any(file.startswith(f"{folder}/") for folder in _foreign_folders())


@cache
def _foreign_folders() -> tuple[str, ...]:
    ours = (getattr(sys.modules.get(name), "__file__", None) for name in _PACKAGES)
    return (sysconfig.get_path("stdlib"), *(str(Path(file).parent) for file in ours if file))
