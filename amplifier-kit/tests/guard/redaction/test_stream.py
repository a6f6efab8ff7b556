"""Bytes that come in pieces are masked before they are released, wherever the pieces are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.redaction.prefilter import MASK
from amplifier_kit.guard.redaction.redactor import Redactor
from amplifier_kit.guard.redaction.stream import LONGEST_HELD, RedactingStream

LIVE = "blue-heron-lives-7741"
TOKEN = "ghp_" + "Z9y8X7w6V5" * 4
KEY_LINES = [("QUJD" + chr(65 + n) * 3) * 9 + "x" for n in range(12)]
KEY = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----"])


def make() -> RedactingStream:
    """Return a stream that knows a live secret."""
    return RedactingStream(Redactor([LIVE], rules=("secrets",)).scrub_text)


def through(stream: RedactingStream, data: bytes, size: int) -> bytes:
    """Return everything that comes out of a stream fed in pieces of one size."""
    out = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
    return out + stream.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 1 << 20])
@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (f"before\n{LIVE} and more\nafter\n", [LIVE]),
        (f"before {TOKEN}\nafter", [TOKEN]),
        (f"url https://user:{LIVE}@host/\r\nafter\r\n", [LIVE]),
        (f"before\n{KEY}\nafter\n", KEY_LINES),
        (KEY.replace("\n", "\r\n"), KEY_LINES),
        ("key: " + KEY.replace("\n", "\\n") + "\n", KEY_LINES),
        (KEY.rsplit("\n", 3)[0], KEY_LINES[:-2]),
        ("x" * 500 + "\nAuthorization: Bearer abcdef0123456789abcdef\nafter\n", ["abcdef0123456789abcdef"]),
    ],
)
def test_pieces_of_any_size_hide_a_secret(text: str, secrets: list[str], size: int) -> None:
    """A secret is masked wherever its bytes are cut apart, and everything around it stays."""
    stream = make()
    out = through(stream, text.encode(), size).decode()
    assert [secret for secret in secrets if secret in out] == []
    assert MASK in out
    assert stream.has_masked
    if text.endswith("after\n"):
        assert out.endswith("after\n")
    if text.startswith("before"):
        assert out.startswith("before")


@pytest.mark.parametrize("size", [1, 5, 4096])
def test_what_a_terminal_hides_hides_no_secret(size: int) -> None:
    """Colours, NULs (as in UTF-16) and overstruck letters in a secret do not get it through."""
    coloured = f"a \x1b[32m{LIVE[:6]}\x1b[0m{LIVE[6:]} b\n"
    wide = f"password {TOKEN}\n".encode("utf-16-le")
    struck = "".join(f"{letter}\x08{letter}" for letter in TOKEN) + "\n"
    key = "".join(f"\x1b[1m{line}\x1b[0m\n" for line in KEY.splitlines())
    for data in (coloured.encode(), wide, struck.encode(), key.encode()):
        out = through(make(), data, size)
        bare = out.replace(b"\0", b"").replace(b"\x1b[0m", b"").replace(b"\x1b[1m", b"").decode()
        assert MASK in bare
        assert not any(secret in bare for secret in (LIVE, TOKEN, *KEY_LINES))


def test_nothing_of_a_key_is_released_before_its_end() -> None:
    """While a private key is being written, none of its lines may be on a disk yet."""
    stream = make()
    out = stream.feed(f"hello\n{KEY}".encode()[:-40])
    assert out == b"hello\n"
    out += stream.feed(f"{KEY}\nbye\n".encode()[-45:])
    assert out.decode() == f"hello\n{MASK}\nbye\n"


def test_whole_lines_are_released_at_once() -> None:
    """Whoever follows the file of a server sees each line when it is whole; half a line waits."""
    stream = make()
    assert stream.feed(b"listening on 8000\nnext") == b"listening on 8000\n"
    assert stream.feed(b" one\r 50 %\r") == b"next one\r 50 %\r"
    assert stream.held == 0


@given(pieces=st.lists(st.binary(max_size=200)))
def test_bytes_without_secrets_are_left_alone(pieces: list[bytes]) -> None:
    """Whatever holds no secret comes out byte for byte, text or not."""
    stream = make()
    whole = b"".join(pieces)
    out = b"".join(stream.feed(piece) for piece in pieces) + stream.finish()
    assert out == whole or stream.has_masked


@pytest.mark.parametrize("unit", ["x", "word ", '{"a": 1},', "\u20ac", "QUJD" * 16 + "\n"])
def test_memory_is_bounded(unit: str) -> None:
    """Neither a line without an end nor lines that look like a key are held for ever, and nothing of them is lost."""
    stream = make()
    data = (unit * (1 + 400_000 // len(unit.encode()))).encode()
    out = b""
    for at in range(0, len(data), 10_000):
        out += stream.feed(data[at : at + 10_000])
        assert stream.held <= LONGEST_HELD + 10_000
    assert out + stream.finish() == data


@pytest.mark.parametrize("offset", range(0, 12_000, 499))
def test_a_secret_in_a_line_without_end_is_masked(offset: int) -> None:
    """A line that is too long is never cut where a secret lies."""
    line = b"y" * (LONGEST_HELD - 10_000 + offset) + f" {TOKEN}{LIVE} ".encode() + b"z" * 90_000
    out = through(make(), line, 4096)
    assert TOKEN.encode() not in out
    assert LIVE.encode() not in out
    assert out.startswith(b"y" * 1000)
    assert out.endswith(b"z" * 1000)


def test_a_secret_that_is_longer_than_anything_held_is_dropped() -> None:
    """Of a value that never ends, not even the part after the first pieces comes through."""
    stream = make()
    value = "Qk9" * 60_000
    out = through(stream, f'password="{value}" after\n'.encode(), 8192)
    assert b"Qk9Qk9" not in out
    assert out.endswith(b" after\n")
