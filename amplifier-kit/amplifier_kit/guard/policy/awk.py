"""Programs in the language of awk: most only show what passes by, some run commands or write files."""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.guard.policy.segment import HOLE

#: What runs a command, writes a file, opens a connection or loads something. `||` and `>=` are none of it.
_HAZARD: Final = re.compile(r"system|getline|[|>@]|\\\n|/inet")
_VALUED: Final = ("-F", "-v")
_LONGEST: Final = 2_000


def hazardous_awk(words: tuple[str, ...]) -> str | None:
    """Return what of the words behind `awk` may run a command or write a file, None when it is nothing.

    Only -F, -v and a program on the line itself are taken for harmless; a comparison by `>` looks like a redirect.
    """
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        if not words[at].startswith(_VALUED):
            return _shown(words[at])
        at += 2 if words[at] in _VALUED else 1
    if any(HOLE in word for word in words[: at + 1]):
        return "…"
    at += words[at : at + 1] == ("--",)
    program, *files = words[at:] or ("",)
    if len(program) > _LONGEST or HOLE in program or _HAZARD.search(program.replace("||", " ").replace(">=", " ")):
        return _shown(program)
    return next((_shown(file) for file in files if "/inet" in file), None)


def _shown(text: str) -> str:
    text = text.replace(HOLE, "…")
    return text if len(text) <= 40 else f"{text[:40]}…"
