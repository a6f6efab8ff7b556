"""The git mirror: repositories of the host answer for public addresses, exactly those, and can only be read."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.services.addresses import GIT
from amplifier_digital_twin.services.git_address import GitAddress
from amplifier_digital_twin.services.git_command import run_git
from amplifier_digital_twin.services.git_export import Exported, export
from amplifier_digital_twin.services.git_packing import GitPacking
from amplifier_digital_twin.services.http_site import MAX_BODY, Answer, HttpSite, Question, plain

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from amplifier_digital_twin.services.decisions import Decisions, Verdict

_SERVICE: Final = "git-upload-pack"
_READ_ONLY: Final = "this universe's git mirror is read-only: nothing can be pushed to it"
#: How long a client may let git wait, in seconds.
_PATIENCE: Final = 120
#: How many git processes answer at the same time.
_PROCESSES: Final = 8
_CHUNK: Final = 1024 * 1024
_PORT: Final = 443
_FRESH: Final = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}


class GitMirror:
    """Serves working trees and branches of the host under `http://<mirror>/<host>/<path>`."""

    def __init__(self, repositories: Sequence[Repository], folder: Path, decisions: Decisions) -> None:
        """Raise TwinError (`repository_invalid`, `repository_twice`) for addresses that cannot be served."""
        self._repositories: dict[GitAddress, Repository] = {}
        for repository in repositories:
            address = GitAddress.need(repository.url)
            if address in self._repositories:
                raise TwinError(
                    "repository_twice",
                    f"two repositories answer for {repository.url}",
                    "leave one of them in `repositories`",
                )
            self._repositories[address] = repository
        self._folder = folder
        self._decisions = decisions
        self._exported: dict[GitAddress, Exported] = {}
        self._generation = 0
        self._site = HttpSite(self._answer)
        self._turns = asyncio.Semaphore(_PROCESSES)
        self._packing = GitPacking(_start)

    @property
    def commits(self) -> Mapping[str, Mapping[str, str]]:
        """Return what is served: the address as the profile writes it → ref (`HEAD`, `refs/heads/…`) → commit."""
        return {self._repositories[address].url: found.commits for address, found in self._exported.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was left out of the working trees, in words."""
        return tuple(dict.fromkeys(note for found in self._exported.values() for note in found.notes))

    async def prepare(self) -> None:
        """Take every repository as it is now; called again, what is served is replaced at once.

        Raises TwinError, and then serves what it did before.
        """
        from amplifier_kit.threads import in_thread

        self._generation += 1
        folder = self._folder / str(self._generation)
        # One export for all the addresses that one tree answers for.
        wanted = {(repository.path, repository.ref) for repository in self._repositories.values()}
        places = {key: folder / f"{number}.git" for number, key in enumerate(sorted(wanted))}
        exports = [in_thread(_export(*key, place)) for key, place in places.items()]
        results = await asyncio.gather(*exports, return_exceptions=True)
        if failures := [result for result in results if isinstance(result, BaseException)]:
            await in_thread(_removal(folder))
            raise failures[0]
        made = dict(zip(places, results, strict=True))
        old = {found.folder.parent for found in self._exported.values()}
        self._exported = {
            address: found
            for address, repository in self._repositories.items()
            if isinstance(found := made[(repository.path, repository.ref)], Exported)
        }
        for place in old:
            await in_thread(_removal(place))

    def expect_clones(self) -> None:
        """Get ready for the first client before it comes."""
        for found in self._exported.values():
            self._packing.begin(found.folder)

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        """Answer on a listening socket until closed; return at once what closes this one alone."""
        return await self._site.serve(listening)

    async def close(self) -> None:
        """Stop answering and remove the exports; a second time does nothing."""
        from amplifier_kit.threads import in_thread

        await self._site.close()
        await self._packing.close()
        await in_thread(_removal(self._folder))

    def fingerprint(self) -> str:
        """Return a hash of every address, ref and commit that is served."""
        import hashlib

        lines = [
            f"{address.host}/{address.path} {ref} {commit}\n"
            for address, found in self._exported.items()
            for ref, commit in found.commits.items()
        ]
        return hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogateescape")).hexdigest()

    def git_config(self, address: tuple[str, int] = GIT) -> str:
        """Return the system gitconfig that leads the repositories' hosts to the mirror, for every way to write them."""
        base = f"http://{address[0]}:{address[1]}/"
        lines = [f'[http "{base}"]', '\tproxy = ""']
        for host in sorted({known.host for known in self._repositories}):
            name = host.partition(":")[0]
            spellings = [f"{scheme}{host}/" for scheme in ("https://", "http://", "https://git@", "git://")]
            spellings += [f"ssh://git@{name}/", f"ssh://git@{name}:22/", f"git@{name}:"]
            lines.append(f'[url "{base}{host}/"]')
            lines += [f"\tinsteadOf = {spelling}" for spelling in spellings]
        return "\n".join([*lines, ""])

    def is_host(self, url: str) -> bool:
        """Tell whether the mirror answers for the host of a URL, be it with a refusal."""
        address = GitAddress.parse(url)
        return address is not None and any(known.host == address.host for known in self._repositories)

    def refs(self, url: str) -> Mapping[str, str] | None:
        """Return the refs served for a URL in any spelling, None for a repository that is not served."""
        address = GitAddress.parse(url)
        found = self._exported.get(address) if address is not None else None
        return None if found is None else found.commits

    async def has_commit(self, url: str, commit: str) -> bool:
        """Tell whether a commit is in the history that is served for a URL."""
        from amplifier_kit.threads import in_thread

        address = GitAddress.parse(url)
        found = self._exported.get(address) if address is not None else None
        if found is None or not commit or set(commit) - set("0123456789abcdef"):
            return False
        if not await in_thread(lambda: _is_commit(found.folder, commit)):
            return False
        arguments = [f"--git-dir={found.folder}", "for-each-ref", "--count=1", f"--contains={commit}"]
        return bool(await in_thread(lambda: run_git(arguments)))

    async def _answer(self, question: Question) -> Answer:
        host, _, rest = question.path.removeprefix("/").partition("/")
        for ending in ("/info/refs", f"/{_SERVICE}", "/git-receive-pack"):
            if rest.endswith(ending):
                return await self._repository(question, host, rest.removesuffix(ending), ending)
        self._record("refuse", host, question, "only git's smart protocol is spoken here")
        return plain(404, "this is a git mirror: it speaks git's smart protocol and nothing else")

    async def _repository(self, question: Question, host: str, path: str, ending: str) -> Answer:
        address = GitAddress.of(host, path)
        found = self._exported.get(address) if address is not None else None
        if found is None:
            self._record("refuse", host, question, "not one of the profile's repositories")
            return plain(
                404,
                f"{host}/{path} is not served in this universe: "
                "add it to `repositories` in the profile, with the path of a working tree",
            )
        service = question.query.get("service", "") if ending == "/info/refs" else ending[1:]
        if service == "git-receive-pack":
            self._record("refuse", host, question, "the mirror is read-only")
            return plain(403, _READ_ONLY)
        if service != _SERVICE:
            self._record("refuse", host, question, "git's dumb protocol is not spoken here")
            return plain(403, "this git mirror speaks the smart protocol only: use git 1.6.6 or newer")
        if question.method != ("GET" if ending == "/info/refs" else "POST"):
            return plain(405, "git asks for this in another way")
        self._record("rewrite", host, question, "")
        if ending == "/info/refs":
            self._packing.begin(found.folder)
            return await self._advertise(found.folder)
        return self._upload(found.folder, question)

    def _record(self, verdict: Verdict, host: str, question: Question, reason: str) -> None:
        path = "/" + question.path.removeprefix("/").partition("/")[2]
        name, _, port = host.partition(":")
        self._decisions.record(
            "git",
            verdict,
            name,
            int(port) if port.isascii() and port.isdigit() else _PORT,
            question.method,
            path,
            reason,
        )

    async def _advertise(self, folder: Path) -> Answer:
        announcement = f"# service={_SERVICE}\n".encode()
        start = b"%04x%s0000" % (len(announcement) + 4, announcement)
        pieces = [start, *[piece async for piece in self._pack(folder, b"", "--advertise-refs")]]
        return Answer(200, b"".join(pieces), f"application/x-{_SERVICE}-advertisement", _FRESH)

    def _upload(self, folder: Path, question: Question) -> Answer:
        body: bytes | None = question.body
        if question.headers.get("content-encoding", "") in ("gzip", "x-gzip"):
            body = _unpacked(question.body)
        if body is None:
            return plain(413, "the request is damaged or too large")
        return Answer(200, self._upload_pack(folder, body), f"application/x-{_SERVICE}-result", _FRESH)

    async def _upload_pack(self, folder: Path, body: bytes) -> AsyncIterator[bytes]:
        await self._packing.done(folder)
        async for piece in self._pack(folder, body):
            yield piece

    async def _pack(self, folder: Path, body: bytes, *options: str) -> AsyncIterator[bytes]:
        """Yield what git answers. It speaks protocol 0, in which only what refs lead to can be asked for."""
        import tempfile

        argv = ["upload-pack", "--stateless-rpc", "--strict", f"--timeout={_PATIENCE}", *options, str(folder)]
        async with self._turns:
            with tempfile.TemporaryFile() as request:
                request.write(body)
                request.seek(0)
                process = await _start(argv, request)
            try:
                assert process.stdout is not None
                while piece := await process.stdout.read(_CHUNK):
                    yield piece
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            # git tells its client why, in the protocol; the rest of this answer is missing, and must be seen to be.
            raise TwinError("git_failed", f"git upload-pack ended with code {process.returncode}", "see the git client")


def _export(path: Path, ref: str, place: Path) -> Callable[[], Exported]:
    return lambda: export(path, ref, place)


def _removal(folder: Path) -> Callable[[], None]:
    return lambda: shutil.rmtree(folder, ignore_errors=True)


async def _start(arguments: Sequence[str], stdin: BinaryIO) -> Process:
    """Start git; a caller that is cancelled meanwhile leaves none behind."""
    from amplifier_kit.guard.git import read_command, read_environment

    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *read_command(*arguments),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=read_environment(),
            start_new_session=True,
            limit=_CHUNK,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        process = await starting
        process.kill()
        await process.wait()
        raise


def _is_commit(folder: Path, commit: str) -> bool:
    said = run_git([f"--git-dir={folder}", "cat-file", "-t", commit], accepted=(0, 1, 128))
    return said.strip() == b"commit"


def _unpacked(body: bytes) -> bytes | None:
    """Return what a compressed request says; None when it is none, or too large."""
    import zlib

    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(body, MAX_BODY)
    except zlib.error:
        return None
    return None if unpacker.unconsumed_tail or not unpacker.eof else found
