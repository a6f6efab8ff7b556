"""Mask the secrets in bytes that arrive in pieces, such as the output of a command, before they reach a disk.

A secret may span two pieces or many lines (a private key), or contain the colours of a terminal. So bytes are released
by whole lines, a key is held back until its last line has arrived, and a line is also checked without terminal control
codes. Held bytes are in memory only, and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from amplifier_kit.guard.redaction.prefilter import MASK

#: A longer unfinished line or key is released, cut outside of any secret.
LONGEST_HELD: Final = 64 * 1024
#: How much of an overlong line stays after a cut: no secret that spans the cut is longer.
_OVERLAP: Final = 8 * 1024
#: How many bytes of lines that may be a key without its first line are held back: the largest keys are smaller.
_LONGEST_KEY: Final = 16 * 1024
#: The last characters released, checked again with the next ones: a label may be on the line before its value.
_CONTEXT: Final = 512
_MASK_START: Final = MASK.rstrip("]")

_KEY_BEGIN: Final = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-[0-9]"
_KEY_END: Final = rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY|Private-MAC:"
_KEY_WORDS: Final = (b"PRIVATE KEY", b"PuTTY-User")
_KEY_LINE: Final = rb"[A-Za-z0-9+/]{1,100}={0,2}"
_LEAST_KEY_LINE: Final = 40
_LINE_ENDS: Final = (b"\n", b"\r")
#: Where a line that is too long may be cut, and where a secret ends that was too long to be held.
SEPARATOR: Final = re.compile(rb"[\s\"'`<>(){}\[\],;|]")

#: Terminal control sequences: colours, titles, cursor movements.
ESCAPES: Final = (
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
#: All that is invisible in a terminal: those, overstruck letters, control characters.
_INVISIBLE: Final = rf"{ESCAPES}|[^\n\x08]\x08|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
_CONTROLS: Final = bytes((*range(9), 11, 12, *range(14, 32), 127))
_TEXT: Final = bytes((9, 10, 13, *range(32, 127)))
_SAMPLE: Final = 2048
_CONTROL: Final = rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x9b]"


class RedactingStream:
    """Turn the bytes of one stream into bytes that may be written; bytes without secrets stay unchanged."""

    def __init__(self, scrub: Callable[[str], str]) -> None:
        """Mask with `scrub`, which returns a text without secrets."""
        self._scrub = scrub
        self._pending = bytearray()
        self._context = self._masked_context = ""
        #: Whether the rest of a secret follows that was too long to hold.
        self._is_inside = False
        #: Whether anything was masked until now.
        self.has_masked = False

    @property
    def held(self) -> int:
        """How many bytes are not released yet."""
        return len(self._pending)

    def feed(self, data: bytes) -> bytes:
        """Add the next bytes; return the bytes that may be written now."""
        self._pending += data
        if self._is_inside and not self._skip():
            return b""
        end = max(map(self._pending.rfind, _LINE_ENDS)) + 1
        ready = bytes(self._pending[:end])
        held = self._held_from(ready) if end else 0
        if len(self._pending) - held > LONGEST_HELD:
            return self._release_part(held)
        return self._release(held)

    def finish(self) -> bytes:
        """Return the rest at the end of the stream; an unfinished key is masked as far as it goes."""
        if self._is_inside and not self._skip():
            return b""
        held = self._held_from(bytes(self._pending))
        return self._release(held) + self._release_unfinished()

    def discard(self) -> int:
        """Drop the held bytes; return their number."""
        held = len(self._pending)
        self._pending.clear()
        return held

    # -- holding --

    def _held_from(self, ready: bytes) -> int:
        """Return where lines begin that must wait for the next ones: an unfinished key, or lines that may be one."""
        bare = _bare_bytes(ready)
        if any(word in bare for word in _KEY_WORDS) and (key := _unfinished_key(ready)) is not None:
            return key
        return _key_lines_from(ready)

    def _skip(self) -> bool:
        """Drop the rest of a secret that was too long to hold; return whether its end has arrived."""
        end = SEPARATOR.search(self._pending)
        del self._pending[: end.start() if end else len(self._pending)]
        self._is_inside = end is None
        return end is not None

    # -- releasing --

    def _release(self, end: int) -> bytes:
        block = bytes(self._pending[:end])
        del self._pending[:end]
        return self._masked(block)

    def _release_part(self, held: int) -> bytes:
        """Release the lines before, and an overlong line up to a cut outside of any secret."""
        before = self._release(held)
        if re.search(_KEY_BEGIN, _bare_bytes(bytes(self._pending[:200]))):
            return before + self._release_unfinished()
        whole = bytes(self._pending)
        masked = self._scrubbed(whole)
        for cut in _cuts(whole):
            if self._scrubbed(whole[:cut]) + self._scrubbed(whole[cut:]) == masked:
                return before + self._release(cut)
        self._is_inside = True
        return before + self._release(len(whole))

    def _release_unfinished(self) -> bytes:
        """Release the held bytes, without the lines of a key that has begun and not ended."""
        rest = bytes(self._pending)
        self._pending.clear()
        if not re.search(_KEY_BEGIN, _bare_bytes(rest)) or re.search(_KEY_END, _bare_bytes(rest)):
            return self._masked(rest)
        self.has_masked = True
        masked = MASK.encode() + b"\n"
        lines = [masked if _belongs_to_key(line) else line for _, line in _lines(rest)]
        return self._masked(b"".join(line for at, line in enumerate(lines) if not at or line != lines[at - 1]))

    def _masked(self, block: bytes) -> bytes:
        if not block:
            return b""
        encoding = "latin-1" if _is_binary(block) else "utf-8"
        text = block.decode(encoding, "surrogateescape")
        masked = self._with_context(text)
        if re.search(_CONTROL, block):
            bare = self._with_context(_bare_bytes(block).decode(encoding, "surrogateescape"))
            # A coloured secret is still a secret to a reader who strips the colours.
            masked = bare if bare.count(_MASK_START) > masked.count(_MASK_START) else masked
        self._context = text[-_CONTEXT:]
        self._masked_context = self._scrub(self._context)
        self.has_masked = self.has_masked or masked != text
        # The text before may have had another encoding.
        return masked.encode(encoding, "replace" if encoding == "latin-1" else "surrogateescape")

    def _with_context(self, text: str) -> str:
        """Mask a text by itself, and its beginning together with the text before it."""
        text = self._scrub(text)
        end = text.find("\n", _CONTEXT) + 1 or len(text)
        whole, known = self._scrub(self._context + text[:end]), self._masked_context
        if not whole.startswith(known):
            # A secret spans both: the text before it is already written.
            known = known[: next(at for at in range(len(known)) if not whole.startswith(known[: at + 1]))]
        return whole[len(known) :] + text[end:]

    def _scrubbed(self, block: bytes) -> str:
        return self._scrub(block.decode("utf-8", "surrogateescape"))


def _is_binary(block: bytes) -> bool:
    """Return whether bytes are binary, by their beginning; those are handled faster, one character a byte."""
    sample = block[:_SAMPLE]
    bad = len(sample.translate(None, _TEXT))
    return bad > len(sample) // 4 and "\ufffd" in sample[:-4].decode("utf-8", "replace")


def _bare_bytes(block: bytes) -> bytes:
    if not re.search(_CONTROL, block):
        return block
    if _is_binary(block):
        return block.translate(None, _CONTROLS)
    return re.sub(_INVISIBLE, "", block.decode("latin-1")).encode("latin-1")


def _unfinished_key(block: bytes) -> int | None:
    """Return where a key begins that does not end in the block."""
    key: int | None = None
    for start, line in _lines(block):
        bare = _bare_bytes(line)
        begin = re.search(_KEY_BEGIN, bare) if key is None else None
        if begin is not None:
            key = None if re.search(_KEY_END, bare[begin.end() :]) else start
        elif key is not None and re.search(_KEY_END, bare):
            key = None
    return key


def _key_lines_from(block: bytes) -> int:
    """Return where the last lines begin that may belong to a key whose first line is missing."""
    start = len(block)
    longest = 0
    for line in reversed(block[-_LONGEST_KEY:].splitlines(keepends=True)):
        bare = _bare_bytes(line).strip()
        if not re.fullmatch(_KEY_LINE, bare):
            break
        longest = max(longest, len(bare))
        start -= len(line)
    is_too_long = len(block) - start >= min(_LONGEST_KEY, len(block) + 1)
    return len(block) if is_too_long or longest < _LEAST_KEY_LINE else start


def _lines(block: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    for line in block.splitlines(keepends=True):  # at \n, \r and \r\n, nowhere else: these are bytes
        yield start, line
        start += len(line)


def _belongs_to_key(line: bytes) -> bool:
    bare = _bare_bytes(line).strip()
    return bool(re.search(_KEY_BEGIN, bare) or re.fullmatch(_KEY_LINE, bare) or re.match(rb"[A-Za-z\-]{3,20}: ", bare))


def _cuts(whole: bytes) -> Iterator[int]:
    """Yield places where an overlong line may be cut, separators first."""
    last = len(whole) - _OVERLAP
    found = [match.end() for match in SEPARATOR.finditer(whole, max(0, last - _OVERLAP), last)]
    yield from reversed(found[-4:])
    for cut in range(last, last - 4 * 1024, -1024):
        # Never inside a character.
        yield next((at for at in range(cut, cut - 4, -1) if whole[at] & 0xC0 != 0x80), cut)
