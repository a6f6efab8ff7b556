"""Repositories answer for their public addresses, exactly those, and can only be read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.services.config import Served
from amplifier_digital_twin.services.git import export_all, has_commit

URL = "https://github.com/example/Own"


def served(path: Path, url: str = URL, ref: str = "worktree") -> tuple[Repository, ...]:
    """Return a config with one repository."""
    return (Repository(url=url, path=path, ref=ref),)


async def ask(universe: Any, packet: bytes) -> bytes:
    """Send a first packet as it is; return the answer."""
    reader, writer = await asyncio.open_unix_connection(universe.config.sockets / "git.sock")
    writer.write(packet)
    writer.write_eof()
    answer = b""
    with contextlib.suppress(ConnectionResetError):  # cut
        answer = await reader.read()
    writer.close()
    return answer


def request(path: str, service: str = "git-upload-pack") -> bytes:
    """Return the first packet of a client."""
    line = f"{service} {path}\0host=127.0.0.1\0\0version=2\0".encode()
    return b"%04x" % (len(line) + 4) + line


@pytest.mark.parametrize(
    "url",
    [
        *("https://github.com/example/own", "https://github.com/example/own.git", "https://github.com/Example/OWN/"),
        *("http://github.com/example/own", "git@github.com:example/own.git", "ssh://git@github.com/example/own"),
    ],
)
async def test_every_spelling_is_served(start: Any, repository: Path, url: str) -> None:
    """A repository answers for its public address in every way that people write it, with its uncommitted changes."""
    (repository / "new.txt").write_text("uncommitted\n", encoding="utf-8")
    universe = await start(repositories=served(repository))
    code, said = await universe.run("git", "clone", "-q", url, "out")
    assert code == 0, said
    assert (universe.home / "out" / "new.txt").read_text(encoding="utf-8") == "uncommitted\n"
    code, said = await universe.run("git", "-C", "out", "rev-parse", "HEAD", "origin/other", "v1")
    assert (code, said.split()[0]) == (0, Served.load(universe.config).repositories[0].commits["HEAD"])


async def test_shallow_clone_and_single_commit(start: Any, repository: Path, git: Any) -> None:
    """Shallow clones and single commits of the history can be had."""
    universe = await start(repositories=served(repository))
    assert (await universe.run("git", "clone", "-q", "--depth=1", URL, "shallow"))[0] == 0
    assert git(universe.home / "shallow", "rev-list", "--count", "HEAD") == "1"
    first = git(repository, "rev-parse", "HEAD~1")
    await universe.run("git", "init", "-q", "one")
    code, said = await universe.run("git", "-C", "one", "fetch", "-q", "--depth=1", URL, first)
    assert code == 0, said
    assert git(universe.home / "one", "rev-parse", "FETCH_HEAD") == first


@pytest.mark.parametrize("version", ["0", "2"])
async def test_work_that_is_not_named_stays_here(start: Any, repository: Path, git: Any, version: str) -> None:
    """Commits that no served ref leads to cannot be had, though the served repository borrows the same objects."""
    universe = await start(repositories=served(repository, ref="other"))
    secret = git(repository, "rev-parse", "main")
    await universe.run("git", "init", "-q", "one")
    code, said = await universe.run("git", "-c", f"protocol.version={version}", "-C", "one", "fetch", URL, secret)
    assert code != 0
    assert "not our ref" in said


@pytest.mark.parametrize(
    "path",
    [
        *("example/own-extra", "example/ow", "example/own/sub", "example2/own", "other/own", "example/own.git.git"),
        *("example/../example/own", "example//own", "example/own/.git", "", "../../../../etc"),
    ],
)
async def test_anything_else_is_refused(start: Any, repository: Path, path: str) -> None:
    """A longer, shorter or similar name, and a path that leads elsewhere, is refused with what to do, and logged."""
    universe = await start(repositories=served(repository))
    answer = await ask(universe, request(f"/github.com/{path}"))
    assert answer[4:8] == b"ERR "
    assert b"add it to `repositories` in the profile" in answer
    assert [(line["service"], line["allowed"], line["status"]) for line in universe.log()] == [("git", False, 404)]


async def test_nothing_can_be_pushed(start: Any, repository: Path) -> None:
    """A push is refused, and git says why; so is everything but the one service that reads."""
    universe = await start(repositories=served(repository))
    await universe.run("git", "clone", "-q", URL, "out")
    code, said = await universe.run("git", "-C", "out", "push", "origin", "HEAD:refs/heads/evil")
    assert code != 0
    assert "read-only" in said
    for service in ("git-upload-archive", "git-upload-pack2", "sh", "git-upload-pack --strict"):
        assert (await ask(universe, request("/github.com/example/own", service)))[4:8] == b"ERR "
    assert "evil" not in (await universe.run("git", "ls-remote", URL))[1]


@pytest.mark.parametrize("packet", [b"", b"garbage", b"0000", b"ffff", b"0010git-upl", b"\xff\xff\xff\xff", b"-001x"])
async def test_damaged_requests_do_no_harm(start: Any, repository: Path, packet: bytes) -> None:
    """What is not a request of git is cut without an answer, and the server goes on."""
    universe = await start(repositories=served(repository))
    assert await ask(universe, packet) == b""
    assert (await universe.run("git", "ls-remote", URL))[0] == 0


async def test_many_clients_at_once(start: Any, repository: Path) -> None:
    """More clients than git processes are all served."""
    universe = await start(repositories=served(repository))
    found = await asyncio.gather(*(universe.run("git", "clone", "-q", URL, f"out{n}") for n in range(12)))
    assert [code for code, _ in found] == [0] * 12


async def test_git_install(start: Any, repository: Path) -> None:
    """uv installs the working tree by its public address and subdirectory, at the commit that is served."""
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = Path(__file__).parents[1] / "provenance" / "backend.txt"
    package = repository / "packages" / "own"
    package.mkdir(parents=True)
    (package / "backend.py").write_text(backend.read_text(encoding="utf-8"), encoding="utf-8")
    (package / "own.py").write_text("WHAT = 'new'\n", encoding="utf-8")
    (package / "pyproject.toml").write_text(f'{build}[project]\nname = "own"\nversion = "1.0"\n', encoding="utf-8")
    universe = await start(repositories=served(repository))
    code, said = await universe.install("uv", f"own @ git+{URL}@main#subdirectory=packages/own")
    assert code == 0, said
    direct = universe.home / "target" / "own-1.0.dist-info" / "direct_url.json"
    assert Served.load(universe.config).repositories[0].commits["HEAD"] in direct.read_text(encoding="utf-8")


def test_has_commit(repository: Path, tmp_path: Path, git: Any) -> None:
    """Only commits in the served history are known."""
    found, _ = export_all(served(repository, ref="other"), tmp_path / "out")
    assert has_commit(found[0].folder, git(repository, "rev-parse", "other"))
    for odd in (git(repository, "rev-parse", "main"), "", "HEAD", "0" * 40, "--all", "main"):
        assert not has_commit(found[0].folder, odd)


async def test_hanging_client_does_not_stop_the_end(start: Any, repository: Path) -> None:
    """With a client in the middle of a request, the process ends and its sockets are gone."""
    universe = await start(repositories=served(repository))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(universe.config.sockets / "git.sock"))
        client.sendall(request("/github.com/example/own"))
        client.recv(4)
        universe.process.terminate()
        assert await universe.process.wait() == 0
    assert list(universe.config.sockets.iterdir()) == []
