"""A shell line as a whole: for rules that restrict what only several commands together are, as `curl * | sh`."""

from __future__ import annotations

import re
from typing import Final

#: What stands between commands, and where the shell itself opens a file.
_OPERATOR: Final = re.compile(r"\s*(\|&|\|\||&&|&>>|&>|>>|>&|>\||<<<|<<|<&|[|&;<>])\s*")
_SPANS: Final = re.compile(r"[|&;<>`]|\$\(")


def spans_commands(text: str) -> bool:
    """Tell whether a line, or the pattern of a rule, is more than one command without redirects."""
    return _SPANS.search(text) is not None


def line_forms(line: str) -> tuple[str, ...]:
    """Return a line in the forms that a rule about it may be written in: blanks around operators, or none, or as is."""
    plain = " ".join(line.split())
    return tuple(dict.fromkeys((plain, _OPERATOR.sub(r" \1 ", plain).strip(), _OPERATOR.sub(r"\1", plain))))
