"""Archives on the host: what comes out of a twin is trusted in nothing, what goes in is packed as it is."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.embedded import archives
from amplifier_digital_twin.embedded.descent import split_name
from amplifier_digital_twin.errors import TwinError


def _tar(*entries: tuple[str, bytes, bytes, str]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, kind, content, link in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.linkname, entry.mode = kind, len(content), link, 0o6777
            archive.addfile(entry, io.BytesIO(content))
    stream.seek(0)
    return stream


def _file(name: str, content: bytes = b"x") -> tuple[str, bytes, bytes, str]:
    return (name, tarfile.REGTYPE, content, "")


def test_plain_archive(tmp_path: Path) -> None:
    """Files and folders are made, with plain permissions."""
    done = archives.unpack(_tar(("d", tarfile.DIRTYPE, b"", ""), _file("d/f"), _file("./g")), tmp_path / "to", 100)
    assert done.files == (tmp_path / "to/d/f", tmp_path / "to/g")
    assert (tmp_path / "to/d/f").read_bytes() == b"x"
    assert (tmp_path / "to/g").stat().st_mode & 0o7022 == 0


@pytest.mark.parametrize("name", ["../f", "/f", "a/../../f", "..", "a/.."])
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    """A name that leads out of the folder is refused, and nothing is written outside."""
    (tmp_path / "in").mkdir()
    with pytest.raises(TwinError) as caught:
        archives.unpack(_tar(_file(name)), tmp_path / "in", 100)
    assert caught.value.code == "archive_unsafe"
    assert os.listdir(tmp_path) == ["in"]


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    """Links and devices are named, never made, so that no later name can go through them."""
    (tmp_path / "outside").mkdir()
    evil = _tar(
        ("way", tarfile.SYMTYPE, b"", "../outside"),
        _file("way/f"),
        ("hard", tarfile.LNKTYPE, b"", "/etc/passwd"),
        ("null", tarfile.CHRTYPE, b"", ""),
        ("pipe", tarfile.FIFOTYPE, b"", ""),
    )
    done = archives.unpack(evil, tmp_path / "in", 100)
    assert [skip.kind for skip in done.skipped] == ["symbolic link", "hard link", "device", "device"]
    assert os.listdir(tmp_path / "outside") == []
    assert done.files == (tmp_path / "in/way/f",)
    assert not (tmp_path / "in/way").is_symlink()


def test_links_that_are_there_are_not_followed(tmp_path: Path) -> None:
    """A link that waits in the folder is an error as a folder, and replaced as a file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"keep")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/way").symlink_to(outside)
    (tmp_path / "in/f").symlink_to(outside / "f")
    with pytest.raises(TwinError) as caught:
        archives.unpack(_tar(_file("way/f")), tmp_path / "in", 100)
    assert caught.value.code == "archive_unwritable"
    archives.unpack(_tar(_file("f")), tmp_path / "in", 100)
    assert (outside / "f").read_bytes() == b"keep"
    assert (tmp_path / "in/f").read_bytes() == b"x"


def test_caps(tmp_path: Path) -> None:
    """Too many bytes, too many entries and sizes that lie are refused."""
    two = [_file("a", b"12345"), _file("b", b"67890")]
    assert len(archives.unpack(_tar(*two), tmp_path / "0", 10).files) == 2
    with pytest.raises(TwinError) as caught:
        archives.unpack(_tar(*two), tmp_path / "1", 9)
    assert caught.value.code == "archive_too_large"
    with pytest.raises(TwinError) as caught:
        archives.unpack(_tar(*two), tmp_path / "2", 100, max_entries=1)
    assert caught.value.code == "archive_too_many"
    liar = tarfile.TarInfo("huge")
    liar.size = 2**40
    header = io.BytesIO(liar.tobuf(tarfile.GNU_FORMAT) + b"few bytes")
    with pytest.raises(TwinError) as caught:
        archives.unpack(header, tmp_path / "3", 10**6)
    assert caught.value.code == "archive_too_large"
    assert not (tmp_path / "3/huge").exists()


@pytest.mark.parametrize("content", [b"", b"nonsense" * 200, _tar(_file("f", b"y" * 5000)).getvalue()[:2000]])
def test_broken_archives(tmp_path: Path, content: bytes) -> None:
    """What cannot be read is an error of its own."""
    with pytest.raises(TwinError) as caught:
        archives.unpack(io.BytesIO(content), tmp_path, 10**6)
    assert caught.value.code == "archive_invalid"


def test_pack_and_unpack(tmp_path: Path) -> None:
    """A folder is packed with all in it; links in it stay links, sockets and pipes are named and left out."""
    source = tmp_path / "sou rce ü"
    (source / "sub").mkdir(parents=True)
    (source / "sub/f").write_bytes(b"content")
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    stream = io.BytesIO()
    skipped = archives.pack([archives.Source(source, "to", is_recursive=True, mode=0o600, uid=7, gid=8)], stream)
    assert skipped == (archives.Skipped("to/pipe", "device"),)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        members = {member.name: member for member in archive.getmembers()}
    assert sorted(members) == ["to", "to/link", "to/sub", "to/sub/f"]
    assert members["to/link"].issym()
    assert (members["to/sub/f"].mode, members["to/sub/f"].uid, members["to/sub/f"].gid) == (0o600, 7, 8)
    assert members["to/sub/f"].uname == ""


def test_pack_refuses(tmp_path: Path) -> None:
    """A missing source, and a folder that was not asked for as one, are errors; a named link is followed."""
    for path, code in ((tmp_path / "no", "source_missing"), (tmp_path, "source_is_folder")):
        with pytest.raises(TwinError) as caught:
            archives.pack([archives.Source(path, "x")], io.BytesIO())
        assert caught.value.code == code
    (tmp_path / "real").write_bytes(b"real")
    (tmp_path / "link").symlink_to("real")
    stream = io.BytesIO()
    archives.pack([archives.Source(tmp_path / "link", "x")], stream)
    stream.seek(0)
    assert archives.unpack(stream, tmp_path / "out", 100).files[0].read_bytes() == b"real"


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b\n", "/", "ü", "...", "\0"]), max_size=6))
def test_names_stay_inside(parts: list[str]) -> None:
    """A name is taken only when joining it to a folder stays below that folder."""
    name = "/".join(parts)
    split = split_name(name)
    if split is not None:
        joined = os.path.normpath("/".join(["/folder", *split]))
        assert joined == "/folder" or joined.startswith("/folder/")
        assert not name.startswith("/")
