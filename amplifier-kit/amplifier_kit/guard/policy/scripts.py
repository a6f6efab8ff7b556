"""Scripts in the small languages that rows of the table name: awk, sed, and the formats of `printf`.

Most only show or change what passes by; some run commands, write files or set variables.
"""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.guard.policy.segments import HOLE

#: Longer scripts are not analysed.
_LONGEST: Final = 2_000

# --- awk ---

#: What runs a command, writes a file, opens a connection or loads something. `||` and `>=` do none of it.
_AWK_HAZARD: Final = re.compile(r"system|getline|[|>@]|\\\n|/inet")
_AWK_VALUED: Final = ("-F", "-v")


def hazardous_awk(words: tuple[str, ...]) -> str | None:
    """Return what of the words behind `awk` may run a command or write a file, None when nothing may.

    Only -F, -v and a program on the line itself are taken for harmless; a comparison by `>` looks like a redirect.
    """
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        if not words[at].startswith(_AWK_VALUED):
            return _shown(words[at])
        at += 2 if words[at] in _AWK_VALUED else 1
    if any(HOLE in word for word in words[: at + 1]):
        return "…"
    at += words[at : at + 1] == ("--",)
    program, *files = words[at:] or ("",)
    if len(program) > _LONGEST or HOLE in program or _AWK_HAZARD.search(program.replace("||", " ").replace(">=", " ")):
        return _shown(program)
    return next((_shown(file) for file in files if "/inet" in file), None)


# --- sed ---

_PATTERN: Final = r"/(?:[^/\\\n]|\\.)*/[IM]*"
_ADDRESS: Final = rf"(?:(?:[0-9]+(?:~[0-9]+)?|\$|{_PATTERN})(?:,\s*(?:[+~]?[0-9]+|\$|{_PATTERN}))?\s*!?\s*)?"
#: `s` and `y`: whatever stands between the same three marks, with a mark in it only behind a backslash.
_EXCHANGE: Final = r"[sy](?P<mark>[^\w\s\\;])(?:(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)){2}[gpIiMm0-9]*"
_LETTER: Final = r"(?:[pPdDnNhHgGxz=l]|[qQ][0-9]*)"
#: One command that neither runs nor writes anything, with what ends it.
_SED_COMMAND: Final = re.compile(
    rf"\s*(?:{_ADDRESS}(?:{_EXCHANGE}|{_LETTER}|\{{)\s*|\}}\s*)(?:[;\n]+|(?<=\{{)|(?=\}})|$)"
)


def hazardous_sed(words: tuple[str, ...]) -> str | None:
    """Return what of the words behind `sed` may run a command or write a file, None when nothing may.

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
        found = _SED_COMMAND.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True


# --- printf ---

#: What of a format writes into a variable how much was printed so far.
_COUNTS: Final = re.compile(r"%[^a-zA-Z%]*[hjlLqtz]*n")


def printf_sets_variable(words: tuple[str, ...]) -> bool:
    """Return whether the words after `printf` set a variable: with -v, or by a %n in its format."""
    if any(word.startswith(("-v", HOLE)) or (word.startswith("-") and HOLE in word) for word in words[:1]):
        return True
    at = int(words[:1] == ("--",))
    shown = "".join(words[at : at + 1]).replace("%%", "")
    has_values = len(words) > at + 1
    return has_values and (HOLE in shown or _COUNTS.search(shown) is not None)


def _shown(text: str) -> str:
    text = text.replace(HOLE, "…")
    return text if len(text) <= 40 else f"{text[:40]}…"
