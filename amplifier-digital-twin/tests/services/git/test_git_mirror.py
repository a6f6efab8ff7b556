"""Real git clients reach the repositories that a profile names by their public address, and nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.git_mirror import GitMirror

Git = Callable[..., str]
Serve = Callable[..., Awaitable[Any]]
URL = "https://github.com/example/amplifier-core"


async def ask(base: str, request: bytes) -> bytes:
    """Send bytes as they are, as no honest client would; return the answer."""
    host, port = base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "url",
    [
        URL,
        f"{URL}.git",
        f"{URL}/",
        "https://github.com/Example/Amplifier-CORE.git",
        "https://git@github.com/example/amplifier-core",
        "git@github.com:example/amplifier-core.git",
        "ssh://git@github.com/example/amplifier-core",
        "http://github.com/example/amplifier-core",
    ],
)
async def test_every_spelling_of_the_address(serve: Serve, repository: Path, url: str) -> None:
    """A repository answers for its public address in every way that people write it."""
    served = await serve(Repository(repository, URL))
    said = await served.git("ls-remote", url, "HEAD", "refs/heads/main")
    commit = served.mirror.commits[URL]["HEAD"]
    assert said.split() == [commit, "HEAD", commit, "refs/heads/main"]


async def test_clone_fetch_and_history(serve: Serve, repository: Path, git: Git) -> None:
    """The working tree is cloned with its history, branches and tags."""
    (repository / "new.txt").write_text("uncommitted\n", encoding="utf-8")
    served = await serve(Repository(repository, URL))
    await served.git("clone", "-q", URL, "out")
    out = served.home / "out"
    assert (out / "new.txt").read_text(encoding="utf-8") == "uncommitted\n"
    assert git(out, "rev-list", "--count", "HEAD") == "3"
    assert git(out, "rev-parse", "origin/other") == git(repository, "rev-parse", "other")
    assert git(out, "rev-parse", "v1^{commit}") == git(repository, "rev-parse", "v1^{commit}")
    await served.git("-C", "out", "fetch", "-q", "--all")
    await served.git("-C", "out", "fsck")


async def test_shallow_clone_and_single_commit(serve: Serve, repository: Path, git: Git) -> None:
    """Shallow clones, filtered clones and single commits of the history can be had."""
    served = await serve(Repository(repository, URL))
    await served.git("clone", "-q", "--depth=1", URL, "shallow")
    assert git(served.home / "shallow", "rev-list", "--count", "HEAD") == "1"
    await served.git("-C", "shallow", "fetch", "-q", "--unshallow")
    assert git(served.home / "shallow", "rev-list", "--count", "HEAD") == "2"
    await served.git("clone", "-q", "--filter=blob:none", URL, "filtered")
    first = git(repository, "rev-parse", "HEAD~1")
    await served.git("init", "-q", "one")
    await served.git("-C", "one", "fetch", "-q", "--depth=1", URL, first)
    assert git(served.home / "one", "rev-parse", "FETCH_HEAD") == first


async def test_work_that_is_not_named_cannot_be_had(serve: Serve, repository: Path, git: Git) -> None:
    """Commits that no served ref leads to stay on the host, though the mirror borrows the same objects."""
    secret = git(repository, "rev-parse", "main")
    served = await serve(Repository(repository, URL, "other"))
    await served.git("init", "-q", "one")
    for version in ("0", "2"):
        code, said = await served.run("git", "-c", f"protocol.version={version}", "-C", "one", "fetch", URL, secret)
        assert code != 0
        assert "not our ref" in said
    await served.git("-C", "one", "fetch", "-q", URL, "other")


@pytest.mark.parametrize(
    "path",
    [
        "example/amplifier-core-extra",
        "example/amplifier",
        "example/amplifier-core/sub",
        "example2/amplifier-core",
        "other/amplifier-core",
        "example/amplifier-core.git.git",
    ],
)
async def test_sibling_is_refused(serve: Serve, repository: Path, path: str) -> None:
    """A repository with a longer, shorter or similar name is not served, git shows why, and the log has it."""
    served = await serve(Repository(repository, URL))
    code, said = await served.run("git", "ls-remote", f"https://github.com/{path}")
    assert code == 128
    assert "not found" in said
    assert "add it to `repositories` in the profile" in said
    refused = [line for line in served.decisions() if line["verdict"] == "refuse"]
    assert refused[-1]["service"] == "git"
    assert (refused[-1]["host"], refused[-1]["port"]) == ("github.com", 443)
    assert refused[-1]["path"].startswith(f"/{path}")


async def test_push_is_refused(serve: Serve, repository: Path) -> None:
    """Nothing can be pushed, and git says that the mirror is read-only."""
    served = await serve(Repository(repository, URL))
    before = served.mirror.fingerprint()
    await served.git("clone", "-q", URL, "out")
    code, said = await served.run("git", "-C", "out", "push", "origin", "HEAD:refs/heads/evil")
    assert code != 0
    assert "read-only" in said
    post = b"POST /github.com/example/amplifier-core/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    assert b" 403 " in (await ask(served.base, post)).split(b"\r\n")[0]
    assert "evil" not in await served.git("ls-remote", URL)
    assert served.mirror.fingerprint() == before


@pytest.mark.parametrize(
    "target",
    [
        "/github.com/example/amplifier-core/info/refs",
        "/github.com/example/amplifier-core/HEAD",
        "/github.com/example/amplifier-core/config",
        "/github.com/example/amplifier-core/objects/info/alternates",
        "/github.com/example/amplifier-core/objects/info/packs",
        "/github.com/example/amplifier-core/../../../../etc/passwd",
        "/github.com/example/../example/amplifier-core/info/refs?service=git-upload-pack",
        "/github.com/example%2f..%2fexample/amplifier-core/info/refs?service=git-upload-pack",
        "/github.com/%2e%2e/%2e%2e/etc/info/refs?service=git-upload-pack",
        "/github.com//example/amplifier-core%00/info/refs?service=git-upload-pack",
        "//etc/passwd",
        "/",
        "/github.com/example/amplifier-core/info/refs?service=git-upload-archive",
    ],
)
async def test_files_and_odd_paths_are_refused(serve: Serve, repository: Path, target: str) -> None:
    """The dumb protocol, files of the repository and paths that lead elsewhere are refused."""
    served = await serve(Repository(repository, URL))
    answer = await ask(served.base, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1] in (b"403", b"404"), answer
    assert str(repository).encode() not in answer


@pytest.mark.parametrize(
    "body",
    [b"", b"garbage", b"0032want " + b"0" * 40 + b"\n", b"ffff", b"\x1f\x8b damaged"],
)
async def test_damaged_requests_do_no_harm(serve: Serve, repository: Path, body: bytes) -> None:
    """What is no git request is answered with an error or cut, never with content, and the mirror goes on."""
    served = await serve(Repository(repository, URL))
    for encoding in (b"", b"Content-Encoding: gzip\r\n"):
        head = b"POST /github.com/example/amplifier-core/git-upload-pack HTTP/1.1\r\nHost: x\r\n" + encoding
        answer = await ask(served.base, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert b"PACK" not in answer
    assert served.mirror.commits[URL]["HEAD"] in await served.git("ls-remote", URL)


async def test_large_negotiation(serve: Serve, repository: Path, git: Git) -> None:
    """A client with much history of its own, whose requests are compressed and in pieces, is served."""
    served = await serve(Repository(repository, URL))
    await served.git("clone", "-q", URL, "out")
    for number in range(150):
        git(served.home / "out", "commit", "-q", "--allow-empty", "-m", str(number))
    (repository / "later").write_text("x", encoding="utf-8")
    await served.mirror.prepare()
    await served.git("-C", "out", "-c", "http.postBuffer=65536", "fetch", "-q", "origin")
    assert git(served.home / "out", "rev-parse", "origin/main") == served.mirror.commits[URL]["HEAD"]


async def test_prepare_again_serves_what_is_there_now(serve: Serve, repository: Path) -> None:
    """Prepared again, the mirror serves the working tree of that moment, and keeps one export."""
    served = await serve(Repository(repository, URL))
    first = served.mirror.fingerprint()
    await served.mirror.prepare()
    assert served.mirror.fingerprint() == first
    (repository / "a.txt").write_text("three\n", encoding="utf-8")
    await served.mirror.prepare()
    assert served.mirror.fingerprint() != first
    await served.git("clone", "-q", URL, "out")
    assert (served.home / "out" / "a.txt").read_text(encoding="utf-8") == "three\n"


async def test_failed_prepare_keeps_what_was_served(serve: Serve, repository: Path) -> None:
    """When a repository cannot be read any more, the mirror says so and serves what it did before."""
    served = await serve(Repository(repository, URL))
    first = served.mirror.fingerprint()
    index = repository / ".git" / "index"
    content = index.read_bytes()
    index.write_bytes(b"damaged")
    with pytest.raises(TwinError):
        await served.mirror.prepare()
    index.write_bytes(content)
    assert served.mirror.fingerprint() == first
    await served.git("ls-remote", URL)


async def test_one_tree_answers_for_many_addresses(serve: Serve, repository: Path) -> None:
    """One working tree may answer for several addresses, on several hosts."""
    other = "https://git.example.com:8443/team/deep/name.git"
    served = await serve(Repository(repository, URL), Repository(repository, other, "other"))
    assert await served.git("ls-remote", other, "HEAD") != await served.git("ls-remote", URL, "HEAD")
    assert set(served.mirror.commits) == {URL, other}


async def test_addresses_that_cannot_be_served(repository: Path, tmp_path: Path) -> None:
    """Two repositories for one address, and an address that is none, are errors before anything is made."""
    log = Decisions(tmp_path / "log")
    with pytest.raises(TwinError) as caught:
        GitMirror([Repository(repository, URL), Repository(repository, f"{URL.upper()}.git")], tmp_path / "m", log)
    assert caught.value.code in ("repository_twice", "repository_invalid")
    for url in ("", "amplifier-core", "/path", "file:///path/x", "https://github.com/", "https://github.com/../x"):
        with pytest.raises(TwinError) as caught:
            GitMirror([Repository(repository, url)], tmp_path / "m", log)
        assert caught.value.code == "repository_invalid"


async def test_close_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    """Closed twice, with a client in the middle of a request, the mirror is gone and so are its folders."""
    mirror = GitMirror([Repository(repository, URL)], tmp_path / "mirror", Decisions(tmp_path / "log"))
    await mirror.prepare()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await mirror.serve(listening)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /github.com/example/amplifier-core/git-upload-pack HTTP/1.1\r\nHost: x\r\n")
    await writer.drain()
    for _ in range(10):  # rounds of the event loop, so that it has been read whatever the clock says
        await asyncio.sleep(0.005)
    await mirror.close()
    await mirror.close()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
    assert not (tmp_path / "mirror").exists()


async def test_has_commit(serve: Serve, repository: Path, git: Git) -> None:
    """Only commits in the served history are known to the mirror."""
    served = await serve(Repository(repository, URL, "other"))
    assert await served.mirror.has_commit(URL, git(repository, "rev-parse", "other"))
    assert not await served.mirror.has_commit(URL, git(repository, "rev-parse", "main"))
    for odd in ("", "HEAD", "0" * 40, "--all", "main"):
        assert not await served.mirror.has_commit(URL, odd)
    assert not await served.mirror.has_commit("https://github.com/a/b", git(repository, "rev-parse", "other"))
