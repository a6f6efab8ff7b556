"""Which characters the bytes of a page stand for."""

from __future__ import annotations

import codecs
import re
from typing import Final

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PARAMETER: Final = re.compile(r"""charset\s*=\s*["']?\s*([a-z0-9._:-]{1,40})""", re.IGNORECASE)
#: Where pages say it themselves: `<meta charset=…>`, `<meta … content="…; charset=…">`, `<?xml … encoding="…"?>`.
_INSIDE: Final = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([a-z0-9._:-]{1,40})|<\?xml[^>]{0,100}?encoding\s*=\s*["']([a-z0-9._:-]{1,40})""",
    re.IGNORECASE,
)
#: The codecs that stand for characters on the web; Python has others, which would do something else entirely.
_KNOWN: Final = re.compile(
    r"utf-(8|8-sig|16|16-le|16-be|32|32-le|32-be)|ascii|iso8859-\d+|cp(125\d|437|85\d|866|874|932|936|949|950)"
    r"|koi8-[rtu]|gb2312|gbk|gb18030|hz|big5|big5hkscs|euc_(jp|kr|jis_2004|jisx0213)|shift_jis(_2004|x0213)?"
    r"|iso2022_(jp|kr)(_\w+)?|johab|tis-620|mac-(roman|cyrillic|greek|latin2|turkish|iceland)|ptcp154"
)
#: What browsers read these as: pages that say latin-1 mean Windows's superset of it.
_MEANT: Final = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030"}
_SAMPLE: Final = 32768
_HEAD: Final = 4096


def decode(data: bytes, content_type: str) -> str:
    """Return the text of a page; what does not fit its character set is shown as `\N{REPLACEMENT CHARACTER}`.

    A byte-order mark decides, then the server's header, then what the page says of itself, then whether it can be
    UTF-8, then a guess.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return data.decode(name, "replace")
    declared = _known(_PARAMETER.search(content_type)) or _known_inside(data)
    if declared:
        return data.decode(declared, "replace")
    if _can_be_utf8(data):
        return data.decode("utf-8", "replace")
    return data.decode(_guessed(data[:_SAMPLE]), "replace")


def is_binary(data: bytes, content_type: str = "") -> bool:
    """Tell whether bytes cannot be text: there is a NUL, which only UTF-16 and UTF-32 have, marked or declared."""
    declared = _known(_PARAMETER.search(content_type)) or ""
    if any(data.startswith(bom) for bom, _ in _BOMS[1:]) or declared.startswith(("utf-16", "utf-32")):
        return False
    return b"\0" in data[:_SAMPLE]


def _known(match: re.Match[str] | None) -> str | None:
    return _codec(match[1]) if match else None


def _known_inside(data: bytes) -> str | None:
    match = _INSIDE.search(data[:_HEAD])
    name = _codec((match[1] or match[2]).decode("ascii")) if match else None
    # A declaration that is readable as ASCII is not in UTF-16 or UTF-32, whatever it says.
    return "utf-8" if name and name.startswith(("utf-16", "utf-32")) else name


def _codec(label: str) -> str | None:
    try:
        name = codecs.lookup(label.rstrip(".:")).name
    except (LookupError, ValueError):
        return None
    return _MEANT.get(name, name) if _KNOWN.fullmatch(name) else None


def _can_be_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _guessed(sample: bytes) -> str:
    import charset_normalizer

    best = charset_normalizer.from_bytes(sample).best()
    return (_codec(best.encoding) if best else None) or "cp1252"
