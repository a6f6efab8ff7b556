"""Read and write the lines of keys.env: `NAME="value"`, comments, and `NAME=@keyring` for keys that lie elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from amplifier_foundation.settings.errors import KeysError

#: In place of a value: it is in the keyring of the system.
IN_KEYRING: Final = "@keyring"

# Patterns are compiled when a file is there to be read.
_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_LINE: Final = rf"\s*(?:export\s+)?(?P<name>{_NAME})\s*=\s*(?P<rest>.*)"
_QUOTED: Final = r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)')\s*(?:#.*)?"""
_BARE_COMMENT: Final = r"(?:^|\s)#.*"
_ESCAPE: Final = r"\\(.)"
_ESCAPED: Final = {"n": "\n", "r": "\r", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class KeyLine:
    """One line of the file; a comment or blank line has no name."""

    text: str = field(repr=False)
    name: str | None = None
    #: None when the value is in the keyring.
    value: str | None = field(default=None, repr=False)


def parse_lines(path: Path, content: bytes) -> list[KeyLine]:
    """Return the lines of the file; raises KeysError with file and line, and never shows what stands there."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise KeysError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [_parsed(path, number, line.removesuffix("\r")) for number, line in enumerate(lines, start=1)]


def render_lines(lines: Iterable[KeyLine]) -> bytes:
    """Return the content of the file."""
    return "".join(f"{line.text}\n" for line in lines).encode("utf-8")


def key_line(name: str, value: str | None) -> KeyLine:
    """Return the line for a key; None as value says that it is in the keyring. Raises KeysError for what no line holds.

    A variable cannot hold a null character, and a file cannot hold half of a character.
    """
    check_name(name)
    if value is None:
        return KeyLine(f"{name}={IN_KEYRING}", name)
    if not value:
        raise KeysError(f"{name}: a key cannot be empty: remove it instead")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise KeysError(f"{name}: the value is not valid text: copy it again") from None
    if "\0" in value:
        raise KeysError(f"{name}: the value has a null character in it: copy it again")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return KeyLine(f'{name}="{escaped}"', name, value)


def check_name(name: str) -> None:
    """Raise KeysError unless `name` can be the name of a variable; what was given is not shown: it may be a value."""
    if re.fullmatch(_NAME, name) is None:
        raise KeysError(
            "that is no name for a key: letters, digits and underscores, not starting with a digit, like OPENAI_API_KEY"
        )


def _parsed(path: Path, number: int, text: str) -> KeyLine:
    if not text.strip() or text.lstrip().startswith("#"):
        return KeyLine(text)
    line = re.fullmatch(_LINE, text, re.DOTALL)
    if line is None:
        raise KeysError(f'{path}:{number}: not of the form NAME="value": mend or delete the line')
    name, rest = line["name"], line["rest"]
    if rest[:1] in ("'", '"'):
        quoted = re.fullmatch(_QUOTED, rest, re.DOTALL)
        if quoted is None:
            raise KeysError(f"{path}:{number}: the quotes of {name} do not match: mend the line, or set the key again")
        return KeyLine(text, name, _unquoted(quoted))
    bare = re.sub(_BARE_COMMENT, "", rest, flags=re.DOTALL).strip()
    return KeyLine(text, name, None if bare == IN_KEYRING else bare)


def _unquoted(quoted: re.Match[str]) -> str:
    if quoted["single"] is not None:
        return quoted["single"]
    return re.sub(_ESCAPE, lambda match: _ESCAPED.get(match[1], match[0]), quoted["double"], flags=re.DOTALL)
