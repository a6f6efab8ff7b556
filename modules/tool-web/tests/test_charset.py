"""The bytes of a page become the right characters."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_web.text import decode, is_binary

JAPANESE = "これは日本語の文章です。文字コードを当てる試験のために、少し長めに書いてあります。"


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        ("Gruß €".encode(), "text/plain", "Gruß €"),
        ("Gruß".encode("latin-1"), "text/plain; charset=iso-8859-1", "Gruß"),
        ("“a” €".encode("cp1252"), "text/plain; charset=ISO-8859-1", "“a” €"),
        ("Gruß".encode("latin-1"), 'text/plain; charset="latin1"', "Gruß"),
        (JAPANESE.encode("shift_jis"), "text/html; charset=Shift_JIS", JAPANESE),
        (b"<meta charset=koi8-r>" + "Привет".encode("koi8-r"), "text/html", "<meta charset=koi8-r>Привет"),
        (
            b'<?xml version="1.0" encoding="windows-1251"?>' + "Привет".encode("cp1251"),
            "text/xml",
            '<?xml version="1.0" encoding="windows-1251"?>Привет',
        ),
        (codecs.BOM_UTF8 + "ß".encode(), "text/plain; charset=latin-1", "ß"),
        ("ß".encode("utf-16"), "text/plain; charset=utf-8", "ß"),
        ("ß".encode("utf-32"), "text/plain", "ß"),
        ("ß".encode("utf-16-be"), "text/plain; charset=utf-16be", "ß"),
        ('<meta charset="utf-16">ß'.encode(), "text/html", '<meta charset="utf-16">ß'),
        ("Grüße aus Köln an die Straße".encode("cp1252"), "text/plain", "Grüße aus Köln an die Straße"),
        (JAPANESE.encode("euc_jp"), "text/plain", JAPANESE),
        ("aß€"[:2].encode() + "€".encode()[:2], "text/plain", "aß\ufffd"),
        (b"", "text/plain", ""),
    ],
)
def test_which_characters(data: bytes, content_type: str, expected: str) -> None:
    """A byte-order mark decides, then the header, then the page, then UTF-8, then a guess."""
    assert decode(data, content_type) == expected


@pytest.mark.parametrize(
    "name",
    ["rot13", "zlib", "hex", "base64", "unicode_escape", "idna", "punycode", "utf-7", "nothing", "undefined", "."],
)
def test_codecs_that_are_not_character_sets(name: str) -> None:
    """A page cannot choose a codec of Python that does something else."""
    assert decode(b"+AGE- \\x61 61", f"text/plain; charset={name}") == "+AGE- \\x61 61"


@given(st.binary(max_size=300), st.sampled_from(["text/html", "text/plain; charset=utf-8", "text/x; charset=big5"]))
def test_every_page_has_a_text(data: bytes, content_type: str) -> None:
    """Whatever the bytes, there is a text of about their size."""
    assert len(decode(data, content_type)) <= len(data)


@given(st.text(max_size=200))
def test_utf8_is_what_it_is(text: str) -> None:
    """A text in UTF-8 comes back as it went."""
    assert decode(text.encode("utf-8", "replace"), "text/plain; charset=utf-8").lstrip("\ufeff") == text.encode(
        "utf-8", "replace"
    ).decode().lstrip("\ufeff")


def test_binary() -> None:
    """A NUL makes a file binary, unless it is a text in UTF-16 or UTF-32."""
    assert is_binary(b"a\0b")
    assert not is_binary("ab".encode("utf-16"))
    assert not is_binary(b"ab\xff")
    assert not is_binary("ab".encode("utf-16-le"), "text/plain; charset=UTF-16LE")
    assert is_binary(b"a\0b", "text/plain; charset=utf-8")
