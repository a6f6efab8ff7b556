"""Files on their way into a universe and out of it: tar archives, in which nothing but plain files is believed."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, NamedTuple, cast

from amplifier_digital_twin.engines.engine import Engine, absolute, matches, tar_script
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import PushedFile, User

#: Bytes that one look at files may read.
MAX_BYTES: Final = 64 * 1024 * 1024
#: Bytes that one `file-pull` may bring out.
MAX_PULL: Final = 2 * 1024**3
_SPOOLED: Final = 16 * 1024 * 1024


class InnerFile(NamedTuple):
    """A file inside: where, `file`, `directory` or `link`, its permissions, its content."""

    path: str
    kind: str
    mode: int
    content: bytes


def push(engine: Engine, container: str, user: User, file: PushedFile) -> str:
    """Copy a file or directory of the host into a container; return where it is there. Raises TwinError."""
    if file.src.is_dir() and not file.recursive:
        raise TwinError(
            "file_missing", f"{file.src}: is a directory", "set `recursive` (--recursive) to copy all of it"
        )
    target = PurePosixPath(absolute(file.dest, user.home))
    if file.dest.endswith("/"):
        target /= file.src.name
    uid = user.uid if file.uid is None else file.uid
    gid = uid if file.gid is None else file.gid
    if file.create_dirs:
        make_directory(engine, container, user, str(target.parent))
    with tempfile.TemporaryFile() as spool:
        with tarfile.open(fileobj=spool, mode="w") as archive:
            for path, name in _tree(file.src, target.name):
                entry = archive.gettarinfo(path, name)
                entry.uid, entry.gid, entry.uname, entry.gname = uid, gid, "", ""
                if file.mode is not None and entry.isreg():
                    entry.mode = file.mode
                if entry.isreg():
                    with path.open("rb") as content:
                        archive.addfile(entry, content)
                elif entry.isdir() or entry.issym():
                    archive.addfile(entry)
        spool.seek(0)
        engine.copy_in(container, spool, uid, gid, str(target.parent))
    return str(target)


def _tree(source: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Yield a file, or a directory and everything in it, with their names in the archive; links stay links."""
    yield source.resolve() if source.is_symlink() else source, name
    for folder, folders, files in os.walk(source) if source.is_dir() else ():
        for each in sorted([*folders, *files]):
            path = Path(folder, each)
            yield path, str(PurePosixPath(name, path.relative_to(source).as_posix()))


def make_directory(engine: Engine, container: str, user: User, path: str) -> None:
    """Make a directory and those above it; raises TwinError."""
    from amplifier_digital_twin.engines.engine import Command

    made = engine.run(container, Command(["mkdir", "-p", path], user.uid, "/", {}, timeout=60))
    if made.exit_code != 0:
        words = made.stderr.decode("utf-8", "replace").strip()
        raise TwinError("transfer_failed", f"{path}: {words}", "name a directory that the user may write to")


def look(engine: Engine, container: str, user: User, pattern: str, limit: int = MAX_BYTES) -> list[InnerFile]:
    """Return what a path or glob finds, directories with everything in them. Raises TwinError."""
    found: list[InnerFile] = []
    wanted = absolute(pattern, user.home)
    with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as spool:
        archive = cast("IO[bytes]", spool)
        engine.copy_out(container, tar_script([pattern], user.home), user.uid, archive, limit)
        archive.seek(0)
        for path, member, content in members_of(archive):
            if not matches(wanted, path):
                continue
            if member.isreg():
                assert content is not None
                found.append(InnerFile(path, "file", member.mode, content.read()))
            elif member.isdir():
                found.append(InnerFile(path, "directory", member.mode, b""))
            elif member.issym():
                found.append(InnerFile(path, "link", member.mode, os.fsencode(member.linkname)))
    return found


def members_of(archive: IO[bytes]) -> Iterator[tuple[str, tarfile.TarInfo, IO[bytes] | None]]:
    """Yield absolute path, entry and content of everything in an archive from inside; raise TwinError if it is none."""
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                content = members.extractfile(member) if member.isreg() else None
                yield "/" + member.name.removeprefix("./").lstrip("/"), member, content
    except (tarfile.TarError, EOFError) as error:
        remedy = "see whether `tar` inside is GNU tar"
        raise TwinError("archive_invalid", f"what came out of the universe is no archive: {error}", remedy) from error


def pull(engine: Engine, container: str, user: User, source: str, destination: Path) -> dict[str, Any]:
    """Copy files of a universe to the host; links and devices are left out, and named. Raises TwinError."""
    wanted = absolute(source, user.home)
    kept: list[str] = []
    left_out: list[dict[str, str]] = []
    is_glob = "*" in wanted
    root = destination / PurePosixPath(wanted).name if destination.is_dir() else destination
    with tempfile.TemporaryFile() as spool:
        engine.copy_out(container, tar_script([source], user.home), user.uid, spool, MAX_PULL)
        spool.seek(0)
        for path, member, content in members_of(spool):
            if not matches(wanted, path):
                continue
            if is_glob:
                base = PurePosixPath(wanted.split("*", 1)[0] + "x").parent
                target = destination / PurePosixPath(path).relative_to(base)
            else:
                inner = PurePosixPath(path).relative_to(PurePosixPath(wanted))
                target = root / inner
            if ".." in target.parts[len(destination.parts) :]:
                left_out.append({"path": path, "reason": "its name leads elsewhere"})
            elif member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif content is None:
                reason = f"a link to {member.linkname!r}" if member.issym() or member.islnk() else "not a plain file"
                left_out.append({"path": path, "reason": reason})
            else:
                _write(target, destination, content)
                kept.append(str(target))
    if not kept and not left_out:
        raise TwinError("file_missing", f"{source}: no such file in the universe", "`exec ID -- ls` shows what exists")
    return {"files": kept, "left_out": left_out}


def _write(target: Path, top: Path, content: IO[bytes]) -> None:
    """Write a file anew; no directory below `top` may be a link, and an old file is replaced, never written through."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for parent in target.parents:
        if parent == top or parent == top.parent:
            break
        if parent.is_symlink():
            raise TwinError("file_unsafe", f"{parent} is a link", "pull into an empty directory")
    aside = target.with_name(f".{target.name}.part")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        shutil.copyfileobj(content, file)
    aside.replace(target)
