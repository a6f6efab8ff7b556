"""Commands and files in a container: a place to run as a user, tar archives in which only plain files are believed."""

from __future__ import annotations

import os
import re
import shlex
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, NamedTuple

from amplifier_digital_twin.engines.engine import Command, Engine, Finished, end_of
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import PushedFile, User

#: Bytes that one look at files may read.
MAX_BYTES: Final = 64 * 1024 * 1024
#: Bytes that one `file-pull` may bring out.
_MAX_PULL: Final = 2 * 1024**3


class InnerFile(NamedTuple):
    """A file inside: where, `file`, `directory`, `link` or `other`, its permissions, its content or target."""

    path: str
    kind: str
    mode: int
    content: bytes


class Place(NamedTuple):
    """A container, and who works in it."""

    engine: Engine
    container: str
    user: User

    def run(self, command: str, environment: Mapping[str, str] = {}, *, timeout: float = 60.0) -> Finished:
        """Run a line of the shell in the user's home."""
        words = ["/bin/sh", "-c", command]
        return self.engine.run(
            self.container, Command(words, self.user.uid, self.user.home, environment, timeout=timeout)
        )

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; raises TwinError."""
        made = self.engine.run(self.container, Command(["mkdir", "-p", path], self.user.uid))
        if made.exit_code != 0:
            remedy = "name a directory that the user may write to"
            raise TwinError("transfer_failed", f"{path}: {end_of(made.stderr)}", remedy)

    def absolute(self, path: str) -> str:
        """Return a path inside with `~` as the user's home."""
        return self.user.home + path[1:] if path == "~" or path.startswith("~/") else path

    def files(self, pattern: str, limit: int = MAX_BYTES) -> Iterator[InnerFile]:
        """Yield what a path or glob finds, directories with everything in them. Raises TwinError."""
        wanted = self.absolute(pattern)
        with tempfile.TemporaryFile() as archive:
            self.engine.copy_out(self.container, tar_script(wanted), self.user.uid, archive, limit)
            archive.seek(0)
            try:
                with tarfile.open(fileobj=archive, mode="r:") as members:
                    for member in members:
                        path = "/" + member.name.removeprefix("./").lstrip("/")
                        if matches(wanted, path):
                            yield _inner_file(path, member, members)
            except (tarfile.TarError, EOFError) as error:
                remedy = "see whether `tar` inside is GNU tar"
                raise TwinError("archive_invalid", f"what came out is not an archive: {error}", remedy) from error

    def push(self, file: PushedFile) -> str:
        """Copy a file or directory of the host into the container; return where it is there. Raises TwinError."""
        if file.src.is_dir() and not file.recursive:
            remedy = "set `recursive` (--recursive) to copy all of it"
            raise TwinError("file_missing", f"{file.src}: is a directory", remedy)
        target = PurePosixPath(self.absolute(file.dest))
        if file.dest.endswith("/"):
            target /= file.src.name
        uid = self.user.uid if file.uid is None else file.uid
        gid = uid if file.gid is None else file.gid

        def entry(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            member.uid, member.gid, member.uname, member.gname = uid, gid, "", ""
            if file.mode is not None and member.isreg():
                member.mode = file.mode
            return member if member.isreg() or member.isdir() or member.issym() else None

        if file.create_dirs:
            self.make_directory(str(target.parent))
        with tempfile.TemporaryFile() as spool:
            with tarfile.open(fileobj=spool, mode="w") as archive:
                source = file.src.resolve() if file.src.is_symlink() else file.src
                archive.add(source, target.name, filter=entry)
            spool.seek(0)
            self.engine.copy_in(self.container, spool, uid, gid, str(target.parent))
        return str(target)

    def pull(self, source: str, destination: Path) -> dict[str, Any]:
        """Copy files to the host; links and devices are left out, and named. Raises TwinError."""
        wanted = self.absolute(source)
        kept: list[str] = []
        left_out: list[dict[str, str]] = []
        base = PurePosixPath(wanted)
        root = destination / base.name if destination.is_dir() else destination
        if "*" in wanted:
            base, root = PurePosixPath(wanted.split("*", 1)[0] + "x").parent, destination
        for file in self.files(source, _MAX_PULL):
            target = root / PurePosixPath(file.path).relative_to(base)
            if file.kind == "directory":
                target.mkdir(parents=True, exist_ok=True)
            elif file.kind != "file":
                reason = f"a link to {os.fsdecode(file.content)!r}" if file.kind == "link" else "not a plain file"
                left_out.append({"path": file.path, "reason": reason})
            else:
                _write(target, destination, file.content)
                kept.append(str(target))
        if not kept and not left_out:
            said = f"{source}: no such file in the universe"
            raise TwinError("file_missing", said, "`exec ID -- ls` shows what exists")
        return {"files": kept, "left_out": left_out}


def _inner_file(path: str, member: tarfile.TarInfo, members: tarfile.TarFile) -> InnerFile:
    if ".." in PurePosixPath(path).parts:
        return InnerFile(path, "other", member.mode, b"")
    if member.issym() or member.islnk():
        return InnerFile(path, "link", member.mode, os.fsencode(member.linkname))
    content: IO[bytes] | None = members.extractfile(member) if member.isreg() else None
    kind = "file" if content is not None else "directory" if member.isdir() else "other"
    return InnerFile(path, kind, member.mode, content.read() if content is not None else b"")


def _write(target: Path, top: Path, content: bytes) -> None:
    """Replace a file; no directory below `top` may be a link, and an old file is never written through."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for parent in target.parents:
        if parent in (top, top.parent):
            break
        if parent.is_symlink():
            raise TwinError("file_unsafe", f"{parent} is a link", "pull into an empty directory")
    aside = target.with_name(f".{target.name}.part")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        file.write(content)
    aside.replace(target)


def tar_script(pattern: str) -> str:
    """Return the shell script that prints a tar archive of everything that a glob pattern finds.

    `find` lets `*` match `/`, so more may come out than a pattern means: callers compare names with `matches`.
    """
    fixed = pattern.split("*", 1)[0]
    if fixed == pattern:
        quoted = shlex.quote(pattern)
        listing = f"if test -e {quoted} || test -L {quoted}; then printf '%s\\0' {quoted}; fi"
    else:
        wanted = " -o ".join(f"-path {shlex.quote(each)}" for each in _find_patterns(pattern))
        listing = f"find {shlex.quote(fixed.rsplit('/', 1)[0] or '/')} \\( {wanted} \\) -print0"
    return f"cd / && {{ {listing}\n}} 2>/dev/null | tar --null --verbatim-files-from --ignore-failed-read -cf - -T -"


def matches(pattern: str, path: str) -> bool:
    """Return whether a glob means a path, or a directory above it: `*` stays within a name, `**` does not."""
    parts = []
    for part in pattern.rstrip("/").split("/"):
        inner = re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        parts.append("(?:.+/)?" if part == "**" else f"{inner}/")
    return re.fullmatch("".join(parts).removesuffix("/") + "(?:/.*)?", path, re.DOTALL) is not None


def _find_patterns(pattern: str) -> list[str]:
    """Return what `find -path` must match for a glob: `/**/` also means no directory at all."""
    first, separator, rest = pattern.partition("/**/")
    return [pattern] if not separator else [f"{first}/*/{rest}", *_find_patterns(f"{first}/{rest}")]
