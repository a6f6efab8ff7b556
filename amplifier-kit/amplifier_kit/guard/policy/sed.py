"""Scripts of `sed`: most only change what passes by, some run commands or write files."""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.guard.policy.segment import HOLE

_PATTERN: Final = r"/(?:[^/\\\n]|\\.)*/[IM]*"
_ADDRESS: Final = rf"(?:(?:[0-9]+(?:~[0-9]+)?|\$|{_PATTERN})(?:,\s*(?:[+~]?[0-9]+|\$|{_PATTERN}))?\s*!?\s*)?"
#: `s` and `y`: whatever stands between the same three marks, with a mark in it only behind a backslash.
_EXCHANGE: Final = r"[sy](?P<mark>[^\w\s\\;])(?:(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)){2}[gpIiMm0-9]*"
_LETTER: Final = r"(?:[pPdDnNhHgGxz=l]|[qQ][0-9]*)"
#: One command that neither runs nor writes anything, with what ends it.
_HARMLESS: Final = re.compile(rf"\s*(?:{_ADDRESS}(?:{_EXCHANGE}|{_LETTER}|\{{)\s*|\}}\s*)(?:[;\n]+|(?<=\{{)|(?=\}})|$)")
_LONGEST: Final = 2_000


def hazardous_script(words: tuple[str, ...]) -> str | None:
    """Return what of the words behind `sed` may run a command or write a file, None when it is nothing.

    Only scripts of a few well-known commands are taken for harmless. Options are not judged here.
    """
    scripts: list[str] = []
    operands: list[str] = []
    at = 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        at += 1
        if word == "--":
            operands += words[at:]
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if name.startswith("--l"):
                return name
            if name.startswith("--e"):
                scripts.append(value if equals else following)
                at += not equals
            continue
        letters, is_script, value = word.partition("e")
        if "l" in letters:
            return "-l"  # the next word is its value, also one that looks like a script, or not, as the system has it
        if is_script:
            scripts.append(value or following)
            at += not value
    scripts = scripts or operands[:1]
    return next((_shown(script) for script in scripts if not _is_harmless(script)), None)


def _is_harmless(script: str) -> bool:
    if HOLE in script or len(script) > _LONGEST:
        return False
    at = 0
    while at < len(script):
        found = _HARMLESS.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True


def _shown(script: str) -> str:
    text = script.replace(HOLE, "…")
    return text if len(text) <= 40 else f"{text[:40]}…"
