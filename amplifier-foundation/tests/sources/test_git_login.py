"""A password in the address of a repository: used at its host, and nowhere to be read."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.fetcher import Fetcher
from amplifier_foundation.sources.git import git_login

Environ = dict[str, str]
Answer = tuple[int, dict[str, str], bytes]

# All processes of the machine are looked at: no other test, and nobody else who runs this one, has the same secret.
_SECRET = f"s3cret-{uuid.uuid4().hex}"
_PASSWORD = f"{_SECRET}$(id)'\"\\ü"
_IN_THE_ADDRESS = f"{_SECRET}%24(id)%27%22%5C%C3%BC"
_LOGIN = "Basic " + base64.b64encode(f"me:{_PASSWORD}".encode()).decode()


def _command_lines(text: str) -> list[str]:
    """Return the command lines on this machine that hold a text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # it has ended
        found += [line] if text in line else []
    return found


@pytest.fixture
def closed(server: Any, repository: Any) -> Callable[[], list[str]]:
    """Let the server ask for a login; return what tells the command lines that held its password meanwhile."""
    repository.git("clone", "--quiet", "--bare", ".", str(server.folder / "r"))
    repository.git("-C", str(server.folder / "r"), "update-server-info")
    open_answer, seen = server.answer, []

    def answer(path: str) -> Answer:
        seen.extend(_command_lines(_SECRET))
        if server.headers[-1].get("Authorization") != _LOGIN:
            return 401, {"WWW-Authenticate": 'Basic realm="r"'}, b""
        answered: Answer = open_answer(path)
        return answered

    server.answer = answer
    return lambda: seen


@pytest.mark.parametrize("by_commit", [False, True])
async def test_a_password_is_in_no_command_line_and_no_file(
    home: Home, environ: Environ, server: Any, repository: Any, closed: Callable[[], list[str]], by_commit: bool
) -> None:
    """The host gets the password of an address, whatever characters it has; processes and copies do not show it."""
    ref = repository.git("rev-parse", "HEAD") if by_commit else "main"
    address = f"http://me:{_IN_THE_ADDRESS}@127.0.0.1:{server.port}/r"

    fetched = await Fetcher(home, environ=environ).fetch(f"git+{address}@{ref}")

    assert fetched.commit == repository.git("rev-parse", "HEAD")
    assert closed() == []
    files = [path for path in home.path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if _SECRET.encode() in path.read_bytes()] == []


async def test_another_host_is_not_told_the_password(
    home: Home, environ: Environ, secure_server: Any, authority: Any, tmp_path: Path
) -> None:
    """A server that leads to another one does not lead the password there, though that one asks for it."""
    environ["SSL_CERT_FILE"] = str(authority.file)
    asks: Answer = (401, {"WWW-Authenticate": 'Basic realm="r"'}, b"")
    refs = "/r/info/refs?service=git-upload-pack"
    with type(secure_server)(tmp_path / "other", authority).running() as other:
        other.answers[refs] = [asks]
        secure_server.answers[refs] = [asks, (301, {"Location": f"{other.url}{refs}"}, b"")]
        address = f"https://me:{_IN_THE_ADDRESS}@127.0.0.1:{secure_server.port}/r"

        with pytest.raises(SourceError) as refused:
            await Fetcher(home, environ=environ).fetch(f"git+{address}@main")

    assert _SECRET not in str(refused.value)
    assert [head.get("Authorization") for head in secure_server.headers[:2]] == [None, _LOGIN]
    assert other.asked[:1] == [refs]
    assert [head for head in other.headers if "Authorization" in head] == []


@pytest.mark.parametrize(
    "url", ["https://git.example/o/r", "https://me@git.example/o/r", "ssh://git:x@git.example/o/r", "file:///a:b@c/r"]
)
def test_addresses_without_a_password_stay_as_they_are(url: str) -> None:
    """Whoever has no password in the address is logged in by git's own means."""
    login = git_login(url)

    assert login.url == url
    assert not login.options
    assert not login.environ


@pytest.mark.parametrize("login", ["me:a%0Ab", "me%0d:a", "me:%00"])
def test_a_login_that_no_login_can_be(login: str) -> None:
    """Line ends in a login, which would say more than a login to git, are refused without being shown."""
    with pytest.raises(SourceError, match=re.escape("https://***@git.example/o/r: the login has characters")):
        git_login(f"https://{login}@git.example/o/r")
