"""Check files of a twin: that they are there, or not, and what is in them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from amplifier_digital_twin.backends.twin import Twin
from amplifier_digital_twin.checks.inside import Found, find_inside, home_path
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import FileExpectation, User

#: What says that there is something, only too much of it to be read.
_TOO_MUCH = ("too_large", "too_many")


async def check_files(expectations: Sequence[FileExpectation], twin: Twin, user: User) -> list[str]:
    """Return what is not as expected, in words; nothing when all is."""
    problems: list[str] = []
    for expectation in expectations:
        problem = await _check_file(expectation, twin, user)
        if problem:
            problems.append(f"{expectation.path}: {problem}")
    return problems


async def _check_file(expectation: FileExpectation, twin: Twin, user: User) -> str:
    wanted = home_path(expectation.path, user)
    is_about_content = any(
        part is not None for part in (expectation.contains, expectation.matches, expectation.sha256, expectation.mode)
    )
    try:
        found = await find_inside(twin, user, wanted)
    except TwinError as error:
        if error.code not in _TOO_MUCH or is_about_content:
            return f"it cannot be looked at: {error}"
        return "" if expectation.exists else "it is there, and must not be"
    if not expectation.exists:
        return f"{found[0].path} is there, and must not be" if found else ""
    if not found:
        return "it is not there (links on the way to it are not followed)"
    if not is_about_content:
        return ""
    # A pattern can find several: one that is as expected is enough.
    files = [item for item in found if item.kind == "file" or item.path == wanted.rstrip("/")]
    problems = [await asyncio.to_thread(_look, expectation, item) for item in files]
    return "" if "" in problems else problems[0] if problems else "no file was found"


def _look(expectation: FileExpectation, file: Found) -> str:
    if expectation.mode is not None and file.mode & 0o7777 != expectation.mode:
        return f"its permissions are {file.mode & 0o7777:04o}, not {expectation.mode:04o}"
    if expectation.contains is None and expectation.matches is None and expectation.sha256 is None:
        return ""
    if file.kind != "file":
        return f"it is a {file.kind}, not a file"
    return _read(expectation, file.content)


def _read(expectation: FileExpectation, content: bytes) -> str:
    import hashlib
    import re

    text = content.decode("utf-8", "replace")
    if expectation.contains is not None and expectation.contains not in text:
        return f"it does not contain {expectation.contains!r}"
    if expectation.matches is not None and re.search(expectation.matches, text, re.MULTILINE) is None:
        return f"nothing in it matches {expectation.matches!r}"
    digest = hashlib.sha256(content).hexdigest()
    if expectation.sha256 is not None and digest != expectation.sha256:
        return f"its SHA-256 is {digest}, not {expectation.sha256}"
    return ""
