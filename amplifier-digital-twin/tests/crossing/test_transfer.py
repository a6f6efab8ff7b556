"""Files into and out of a twin: whole, as the user, and never by way of a link."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Awaitable, Callable

import pytest

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.embedded.entry import Entry
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

Shell = Callable[..., Awaitable[Finished]]


def _tar(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for entry, content in entries:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    stream.seek(0)
    return stream


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, link, mode
    return entry


async def _get(entry: Entry, user: User, *paths: str, max_bytes: int = 10**7) -> dict[str, tarfile.TarInfo]:
    stream = io.BytesIO()
    await entry.get(paths, user, stream, max_bytes)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        return {member.name: member for member in archive.getmembers()}


async def test_files_go_in_and_come_out_whole(entry: Entry, user: User) -> None:
    """What is put can be got again: content, permissions, odd names and large files."""
    big = bytes(range(256)) * 20_000
    archive = _tar(
        (_entry("a", tarfile.DIRTYPE, mode=0o555), b""),
        (_entry("a/ü \udcff", mode=0o640), b"odd"),
        (_entry("a/big", mode=0o755), big),
        (_entry("a/link", tarfile.SYMTYPE, "big"), b""),
        (_entry("a/hard", tarfile.LNKTYPE, "a/big"), b""),
    )
    await entry.put(archive, user, "/home/user/deep/er")
    stream = io.BytesIO()
    await entry.get(["~/deep"], user, stream, 10**8)
    stream.seek(0)
    with tarfile.open(fileobj=stream, errors="surrogateescape") as out:
        names = out.getnames()
        assert names == [
            f"home/user/deep{rest}"
            for rest in ("", "/er", "/er/a", "/er/a/big", "/er/a/hard", "/er/a/link", "/er/a/ü \udcff")
        ]
        file = out.extractfile("home/user/deep/er/a/hard")
        assert file is not None
        assert file.read() == big
        assert [out.getmember(name).mode for name in names[2:4]] == [0o555, 0o755]
        assert out.getmember("home/user/deep/er/a/link").linkname == "big"


@pytest.mark.parametrize(
    "bad",
    [
        _entry("../up"),
        _entry("a/../../up"),
        _entry("/tmp/absolute"),
        _entry("hard", tarfile.LNKTYPE, "../../etc/passwd"),
        _entry("device", tarfile.CHRTYPE),
        _entry("fifo", tarfile.FIFOTYPE),
    ],
)
async def test_unsafe_archives_are_refused(entry: Entry, user: User, bad: tarfile.TarInfo) -> None:
    """Names that lead out of the folder, and everything but files, folders and links, are refused."""
    with pytest.raises(TwinError) as caught:
        await entry.put(_tar((bad, b"")), user, "/home/user/x")
    assert caught.value.code == "archive_unsafe"


async def test_links_in_the_way_are_not_followed(entry: Entry, shell: Shell, user: User) -> None:
    """A link inside, or one that the archive itself brings, is no way to another folder; a file replaces a link."""
    await shell(
        "mkdir -p /tmp/other ~/x && ln -s /tmp/other ~/x/way && echo keep > /tmp/other/f && ln -s /tmp/other/f ~/x/f",
        HOME="/home/user",
    )
    with pytest.raises(TwinError) as caught:
        await entry.put(_tar((_entry("way/f"), b"new")), user, "/home/user/x")
    assert caught.value.code == "transfer_failed"
    own = _tar((_entry("own", tarfile.SYMTYPE, "/tmp/other"), b""), (_entry("own/f"), b"new"))
    with pytest.raises(TwinError):
        await entry.put(own, user, "/home/user/x")
    await entry.put(_tar((_entry("f"), b"new")), user, "/home/user/x")
    done = await shell("cat /tmp/other/f /home/user/x/f; ls /tmp/other")
    assert done.stdout == b"keep\nnewf\n"


async def test_owners_and_setuid_bits(mapped_walls: object) -> None:
    """Owners in the archive count for root only, and setuid bits for nobody."""
    entry = Entry(mapped_walls.pid)  # type: ignore[attr-defined]

    def archive() -> io.BytesIO:
        owned = _entry("f", mode=0o6755)
        owned.uid, owned.gid = 1234, 2345
        return _tar((owned, b""))

    await entry.put(archive(), User("root", 0), "/tmp/r")
    await entry.put(archive(), User("user", 1000), "/tmp/u")
    command = ["/usr/bin/stat", "-c", "%u:%g %a", "/tmp/r/f", "/tmp/u/f"]
    done = await entry.run(Run(command, {}, User("user", 1000)))
    await entry.close()
    assert done.stdout.splitlines() == [b"1234:2345 755", b"1000:1000 755"]


@pytest.mark.parametrize(("content", "code"), [(b"not a tar" * 1000, "archive_invalid"), (b"", "archive_invalid")])
async def test_broken_archives(entry: Entry, user: User, content: bytes, code: str) -> None:
    """What is no archive is said to be none."""
    with pytest.raises(TwinError) as caught:
        await entry.put(io.BytesIO(content), user, "/home/user")
    assert caught.value.code == code


async def test_cut_archive(entry: Entry, user: User) -> None:
    """An archive that ends in the middle of a file is an error."""
    whole = _tar((_entry("f"), b"x" * 100_000)).getvalue()
    with pytest.raises(TwinError) as caught:
        await entry.put(io.BytesIO(whole[:50_000]), user, "/home/user")
    assert caught.value.code == "archive_invalid"


async def test_unreadable_source_is_the_callers_error(entry: Entry, user: User) -> None:
    """When the host's stream cannot be read, its own error is raised."""

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        await entry.put(Broken(), user, "/home/user")


async def test_folder_without_rights(entry: Entry, user: User) -> None:
    """Files are written with the user's rights and no others."""
    with pytest.raises(TwinError) as caught:
        await entry.put(_tar((_entry("f"), b"")), user, "/usr/lib")
    assert caught.value.code == "transfer_failed"


async def test_patterns(entry: Entry, shell: Shell, user: User) -> None:
    """Patterns match folders at any depth and dot files; a pattern may find nothing, a path may not."""
    await shell("cd; mkdir -p .p/a/b .p/c; touch .p/e.jsonl .p/a/e.jsonl .p/a/b/e.jsonl .p/c/other", HOME="/home/user")
    found = await _get(entry, user, "~/.p/**/e.jsonl", "~/.p/*/oth?r", "~/.p/nothing*")
    assert sorted(found) == [f"home/user/.p/{name}" for name in ("a/b/e.jsonl", "a/e.jsonl", "c/other", "e.jsonl")]
    for missing, code in (("/no/such", "file_missing"), ("relative", "path_invalid"), ("/a/../b", "path_invalid")):
        with pytest.raises(TwinError) as caught:
            await _get(entry, user, missing)
        assert caught.value.code == code


async def test_what_the_user_may_not_read(mapped_walls: object) -> None:
    """A file that the user may not read is an error that names it; in a folder he may not list, nothing matches."""
    entry, user = Entry(mapped_walls.pid), User("user", 1000)  # type: ignore[attr-defined]
    script = "cd /tmp && mkdir -p a/closed && echo x > a/closed/f && chmod 700 a/closed && install -m 600 /dev/null a/f"
    await entry.run(Run(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"}, User("root", 0)))
    assert await _get(entry, user, "/tmp/a/*/*") == {}
    for path in ("/tmp/a/f", "/tmp/a/closed", "/tmp/a/closed/f"):
        with pytest.raises(TwinError, match="ermission denied") as caught:
            await _get(entry, user, path)
        assert caught.value.code == "transfer_failed"
    await entry.close()


async def test_links_come_out_as_links(entry: Entry, shell: Shell, user: User) -> None:
    """A link is recorded, never followed, whether to a file, a folder, itself, or the reader's own process."""
    await shell(
        "mkdir /tmp/d; cd /tmp/d; ln -s /usr folder; ln -s /etc/hosts file; ln -s . loop; ln -s /proc/self me; mkfifo p"
    )
    found = await _get(entry, user, "/tmp/d", "/tmp/d/**/environ", "/tmp/d/*/environ")
    kinds = {name.removeprefix("tmp/"): member.type for name, member in found.items()}
    link = tarfile.SYMTYPE
    assert kinds == {"d": tarfile.DIRTYPE, "d/file": link, "d/folder": link, "d/loop": link, "d/me": link}
    with pytest.raises(TwinError) as caught:
        await _get(entry, user, "/tmp/d/me/environ")
    assert caught.value.code == "file_missing"


async def test_kernel_folders_are_not_files(entry: Entry, user: User) -> None:
    """/proc, /sys and /dev are left out of what is got."""
    found = await _get(entry, user, "/proc", "/dev", "/*/null")
    assert not {name for name in found if name.startswith(("proc", "dev"))}


async def test_too_much_is_refused(entry: Entry, shell: Shell, user: User) -> None:
    """More than allowed is refused before it is read, holes included."""
    await shell("truncate -s 1T /tmp/hole || truncate -s 100G /tmp/hole; head -c 2000 /dev/zero > /tmp/small")
    for path, size in (("/tmp/hole", 10**9), ("/tmp/small", 1999)):
        with pytest.raises(TwinError) as caught:
            await _get(entry, user, path, max_bytes=size)
        assert caught.value.code == "too_large"
    assert list(await _get(entry, user, "/tmp/small", max_bytes=2000)) == ["tmp/small"]


async def test_failing_target_is_the_callers_error(entry: Entry, shell: Shell, user: User) -> None:
    """When the host's stream cannot be written, its own error is raised and the reader inside ends."""

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError("no space")

    await shell("head -c 3000000 /dev/zero > /tmp/f")
    with pytest.raises(OSError, match="no space"):
        await entry.get(["/tmp/f"], user, Full(), 10**7)


async def test_paths_that_may_be_missing(entry: Entry, shell: Shell, user: User) -> None:
    """A set of one letter stands for that letter: thousands of exact paths can be asked for, there or not."""
    await shell(
        "mkdir -p '/tmp/m/a[1]*' /tmp/m/closed /tmp/else && cd /tmp/m && touch 'a[1]*/x' y '!' f1 f2 && ln -s y link "
        "&& touch /tmp/else/z && ln -s /tmp/else way && touch closed/in && chmod 0 closed",
    )
    asked = ["/tmp/m/a[[]1][*]/[x]", "/tmp/m/[y]", "/tmp/m/lin[k]", "/tmp/m/non[e]", "/tmp/no/wa[y]", "/tmp/m/y/[x]"]
    found = await _get(entry, user, *asked, "/tmp/m/way/[z]", "/tmp/m/closed/i[n]", "/tmp/m/[.][.]/[m]")
    assert sorted(found) == ["tmp/m/a[1]*/x", "tmp/m/link", "tmp/m/y"]
    assert found["tmp/m/link"].issym()
    # More than one letter, or none of them, is a pattern as before.
    assert sorted(await _get(entry, user, "/tmp/m/f[12]", "/tmp/m/[!f]")) == [
        "tmp/m/!",
        "tmp/m/f1",
        "tmp/m/f2",
        "tmp/m/y",
    ]
