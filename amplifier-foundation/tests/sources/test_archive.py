"""Archives that others made."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_foundation.paths import Home
from amplifier_foundation.sources import archive as archives
from amplifier_foundation.sources.archive import unpack
from amplifier_foundation.sources.content import META_NAME
from amplifier_foundation.sources.fetched import SourceError, SourceNotFoundError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]
Members = list[tuple[str, int, bytes]]
FILE, PROGRAM, LINK, PIPE = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755, stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644


def pack(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, mode, content in members:
            member = zipfile.ZipInfo(name)
            member.create_system = 3
            member.external_attr = mode << 16
            opened.writestr(member, content)
    return path


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[Members], Path]:
    def run(members: Members) -> Path:
        folder = tmp_path / "unpacked"
        folder.mkdir()
        unpack(pack(tmp_path / "a.zip", members), folder, "zip+file:///a.zip")
        return folder

    return run


def test_files_folders_programs_and_links(unpacked: Callable[[Members], Path]) -> None:
    """Files keep their bytes and whether they are programs; links that stay inside are links."""
    folder = unpacked(
        [
            ("d/", stat.S_IFDIR | 0o755, b""),
            ("d/é x", FILE, b"1"),
            ("run", PROGRAM, b"2"),
            ("plain", 0, b"3"),
            ("d/link", LINK, b"../run"),
        ]
    )

    assert (folder / "d" / "é x").read_bytes() == b"1"
    assert (folder / "run").stat().st_mode & 0o777 & ~0o022 == 0o755
    assert not (folder / "plain").stat().st_mode & 0o111
    assert os.readlink(folder / "d" / "link") == "../run"


@pytest.mark.parametrize("name", ["/abs", "../out", "a/../../out", "a/..", "..\\out", "C:/x", "c:x"])
def test_a_path_that_leads_out_is_refused(unpacked: Callable[[Members], Path], tmp_path: Path, name: str) -> None:
    """No member is written anywhere but in the folder."""
    with pytest.raises(SourceError, match="leads out of the archive"):
        unpacked([("good", FILE, b""), (name, FILE, b"x")])

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "links",
    [
        [("l", "/etc/passwd")],
        [("l", "../x")],
        [("d/l", "../../x")],
        [("x/l", ".."), ("m", "x/l/..")],
        [("l", "")],
    ],
)
def test_a_link_that_leads_out_is_refused(unpacked: Callable[[Members], Path], links: list[tuple[str, str]]) -> None:
    """A link must stay inside, also together with the others on its way."""
    with pytest.raises(SourceError, match=r"is a link that leads out of the archive"):
        unpacked([(name, LINK, target.encode()) for name, target in links])


@pytest.mark.parametrize(
    "members",
    [
        [("l", LINK, b"d"), ("d/", 0, b""), ("l/x", FILE, b"")],
        [("a", FILE, b"1"), ("a", FILE, b"2")],
        [("a", FILE, b"1"), ("a/b", FILE, b"2")],
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_get_in_each_other_s_way_are_refused(unpacked: Callable[[Members], Path], members: Members) -> None:
    """Nothing is written through a link, and nothing replaces what the archive had before."""
    with pytest.raises(SourceError, match="cannot be unpacked"):
        unpacked(members)


def test_special_files_are_refused(unpacked: Callable[[Members], Path]) -> None:
    """Pipes and devices are in no source."""
    with pytest.raises(SourceError, match="'p' is neither a file"):
        unpacked([("p", PIPE, b"")])


def test_what_no_hash_covers_is_left_out(unpacked: Callable[[Members], Path]) -> None:
    """Compiled Python, git's data and a foreign record could be exchanged unnoticed, so they are not unpacked."""
    folder = unpacked(
        [("a.py", FILE, b""), ("__pycache__/a.pyc", FILE, b"x"), ("d/.git/x", FILE, b"x"), (META_NAME, FILE, b"{}")]
    )

    assert [path.name for path in folder.iterdir()] == ["a.py"]


def test_bytes_and_files_are_bounded(unpacked: Callable[[Members], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that unpacks to more than the limit is refused, however small it is."""
    monkeypatch.setattr(archives, "SIZE_LIMIT", 1_000_000)
    with pytest.raises(SourceError, match="more than 1,000,000 bytes"):
        unpacked([("a", FILE, b"\0" * 900_000), ("b", FILE, b"\0" * 200_000)])


def test_the_number_of_files_is_bounded(unpacked: Callable[[Members], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive with more files than the limit is refused before any is written."""
    monkeypatch.setattr(archives, "COUNT_LIMIT", 2)
    with pytest.raises(SourceError, match="has 3 files; the limit is 2"):
        unpacked([(name, FILE, b"") for name in "abc"])


def test_a_lie_about_the_size_is_found_out(tmp_path: Path) -> None:
    """A member whose content is not what its header says is damage, not content."""
    path = pack(tmp_path / "a.zip", [("a", FILE, b"hello world")])
    path.write_bytes(path.read_bytes().replace(b"\x0b\0\0\0", b"\x05\0\0\0"))
    (tmp_path / "to").mkdir()

    with pytest.raises(SourceError, match="not a readable zip archive"):
        unpack(path, tmp_path / "to", "x")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_archive_is_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever bytes are changed, it is unpacked or refused: no other failure, and nothing beside the folder."""
    folder = tmp_path_factory.mktemp("damaged")
    path = pack(folder / "a.zip", [("d/a", FILE, b"hello"), ("l", LINK, b"d/a")])
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    (folder / "to").mkdir()

    try:
        unpack(path, folder / "to", "x")
    except SourceError:
        pass
    assert {entry.name for entry in folder.iterdir()} == {"a.zip", "to"}


def test_stopping(tmp_path: Path) -> None:
    """Unpacking ends soon after it is told to."""
    path = pack(tmp_path / "a.zip", [("a", FILE, b"x")])
    (tmp_path / "to").mkdir()

    with pytest.raises(SourceError, match="was stopped"):
        unpack(path, tmp_path / "to", "x", is_stopped=lambda: True)


async def test_a_local_archive_is_known_by_its_content(home: Home, environ: Environ, tmp_path: Path) -> None:
    """A changed archive on this machine is unpacked anew by itself; its path may have spaces."""
    path = pack(tmp_path / "my ü.zip", [("repo/bundle.md", FILE, b"1")])
    uri = f"zip+file://{path}#subdirectory=repo"
    first = await Fetcher(home, environ=environ, offline=True).fetch(uri)
    again = await Fetcher(home, environ=environ, offline=True).fetch(uri.replace(" ", "%20"))
    pack(path, [("repo/bundle.md", FILE, b"2")])
    second = await Fetcher(home, environ=environ, offline=True).fetch(uri)

    assert (first.kind, first.path) == ("zip", first.root / "repo")
    assert (first.path / "bundle.md").read_bytes() == b"1"
    assert again.sha256 == first.sha256
    assert (second.path / "bundle.md").read_bytes() == b"2"


async def test_an_archive_from_a_server(home: Home, environ: Environ, server: Any) -> None:
    """An archive is downloaded and unpacked, and the archive itself is not kept."""
    pack(server.folder / "a-1.0.zip", [("bundle.md", FILE, b"1")])

    fetched = await Fetcher(home, environ=environ).fetch(f"zip+{server.url}/a-1.0.zip")

    assert fetched.root.name.startswith("a-1.0-")
    assert {path.name for path in fetched.root.iterdir()} == {"bundle.md", META_NAME}
    assert [path.name for path in home.cache.iterdir() if path.suffix != ".lock"] == [fetched.root.name]


async def test_what_is_no_archive_leaves_nothing(home: Home, environ: Environ, tmp_path: Path, server: Any) -> None:
    """A file that is no archive, or is missing, is an error, and nothing is kept of it."""
    (server.folder / "a.zip").write_bytes(b"<html>")

    with pytest.raises(SourceError, match="not a readable zip archive"):
        await Fetcher(home, environ=environ).fetch(f"zip+{server.url}/a.zip")
    with pytest.raises(SourceNotFoundError, match="there is no file"):
        await Fetcher(home, environ=environ).fetch(f"zip+file://{tmp_path}/none.zip")

    assert [path.name for path in home.cache.iterdir() if path.suffix != ".lock"] == []
