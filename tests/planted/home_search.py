"""Search every file below a folder for secrets: as they are, in the forms a program gives them, and compressed.

Used by `count.py` and by the tests that look through a whole home.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

#: Archives in archives are looked into, but not for ever.
_DEEPEST = 4
_MOST_BYTES = 256 << 20


class Leak(NamedTuple):
    """A secret that was found: its name, the file, and the form it was found in."""

    secret: str
    path: str
    form: str


def forms(secret: str) -> dict[str, bytes]:
    """Return how a secret may stand in a file; of one with several lines, its longest line stands for it."""
    lines = [line for line in secret.splitlines() if len(line) > 15 and not line.startswith("-----")]
    text = max(lines, key=len) if len(lines) > 1 else secret
    raw = text.encode()
    escaped = json.dumps(text)[1:-1]
    found = {
        "plain": raw,
        "JSON": escaped.encode(),
        "JSON in JSON": json.dumps(escaped)[1:-1].encode(),
        "URL": quote(text, safe="").encode(),
        "UTF-16 (little)": text.encode("utf-16-le"),
        "UTF-16 (big)": text.encode("utf-16-be"),
        "hex": raw.hex().encode(),
        "reversed": raw[::-1],
    }
    for shift in range(3):
        # A secret in the middle of a text is at one of three places in a group; its first and last group depend on
        # what is around it.
        encoded = base64.b64encode(bytes(shift) + raw)
        inner = encoded[4 if shift else 0 : (len(raw) + shift) // 3 * 4]
        found[f"base64 ({shift})"] = inner
        found[f"base64 of URLs ({shift})"] = inner.replace(b"+", b"-").replace(b"/", b"_")
    return found


def search(
    folder: Path, secrets: Mapping[str, str], leave_out: Callable[[str], bool] = lambda path: False
) -> list[Leak]:
    """Return every secret that a file below the folder holds, or that stands in a name; `leave_out` takes paths."""
    needles = [(name, form, needle) for name, secret in secrets.items() for form, needle in forms(secret).items()]
    leaks: dict[Leak, None] = {}
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).as_posix()
        if leave_out(inner):
            continue
        for name, secret in secrets.items():
            if secret in inner:
                leaks[Leak(name, inner, "name of the file")] = None
        if path.is_symlink() or not path.is_file():
            continue
        for how, content in contents(path.read_bytes()):
            for name, form, needle in needles:
                if needle in content:
                    leaks[Leak(name, inner, f"{form}{how}")] = None
    return list(leaks)


def contents(data: bytes, how: str = "", depth: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of a file, and those of whatever is packed in it."""
    yield how, data
    if depth >= _DEEPEST:
        return
    for kind, inner in _unpacked(data):
        yield from contents(inner, f"{how}, in {kind}", depth + 1)


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    attempts: Iterable[tuple[str, bytes, Callable[[bytes], bytes]]] = (
        ("gzip", b"\x1f\x8b", lambda packed: gzip.GzipFile(fileobj=io.BytesIO(packed)).read(_MOST_BYTES)),
        ("bzip2", b"BZh", bz2.decompress),
        ("xz", b"\xfd7zXZ", lzma.decompress),
        ("zstd", b"\x28\xb5\x2f\xfd", _zstd),
        ("zlib", b"\x78", lambda packed: zlib.decompressobj().decompress(packed, _MOST_BYTES)),
    )
    for kind, magic, unpack in attempts:
        if data.startswith(magic):
            try:
                yield kind, unpack(data)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
                pass  # it only began like that
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.namelist():
                yield f"zip {entry}", archive.read(entry)
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as members:
            for member in members:
                if member.isreg() and (file := members.extractfile(member)) is not None:
                    yield f"tar {member.name}", file.read()


def _zstd(packed: bytes) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise ValueError("this file is packed by zstd, which nothing here can unpack") from error
    unpacked: bytes = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MOST_BYTES)
    return unpacked
