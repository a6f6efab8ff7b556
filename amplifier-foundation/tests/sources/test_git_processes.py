"""Git that hangs, fails or is not there: a script in its place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.fetcher import Fetcher
from amplifier_kit.guard.git import fetch_environment

Environ = dict[str, str]
FakeGit = Callable[[str], Path]
Gone = Callable[[int], bool]
Until = Callable[[Callable[[], bool]], bool]

URI = "git+https://git.example/o/r@main"
#: Hangs, and so does its child; their numbers are in a file before that.
HANGS = 'sleep 1000 & echo "$$ $!" > "$HERE/new"; mv "$HERE/new" "$HERE/pids"; wait; sleep 1000'


def clones(fake: Path) -> int:
    return sum(" clone " in line for line in (fake / "calls").read_text(encoding="utf-8").splitlines())


def pids(fake: Path) -> list[int]:
    return [int(pid) for pid in (fake / "pids").read_text(encoding="utf-8").split()]


def kept(home: Home) -> list[str]:
    return [path.name for path in home.cache.iterdir() if not path.name.endswith(".lock")]


@pytest.mark.parametrize(
    "said",
    [
        "fatal: unable to access 'x': Could not resolve host: git.example",
        "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502",
        "fatal: unable to access 'x': The requested URL returned error: 429",
        "fatal: early EOF",
    ],
)
async def test_what_can_pass_is_tried_three_times(home: Home, environ: Environ, fake_git: FakeGit, said: str) -> None:
    """A failure of the network is tried again twice, then reported with git's words."""
    fake = fake_git(f'echo "{said}" >&2; exit 128')

    with pytest.raises(SourceError, match="git could not fetch it"):
        await Fetcher(home, environ=environ).fetch(URI)

    assert clones(fake) == 3
    assert kept(home) == []


@pytest.mark.parametrize(
    "said",
    [
        "remote: Repository not found.\nfatal: repository 'x' not found",
        "fatal: Authentication failed for 'x'",
        "fatal: could not read Username for 'x': terminal prompts disabled",
        "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.",
        "fatal: Remote branch main not found in upstream origin",
        "fatal: unable to access 'x': The requested URL returned error: 403",
        "fatal: unable to access 'x': server certificate verification failed",
    ],
)
async def test_what_stays_is_tried_once(home: Home, environ: Environ, fake_git: FakeGit, said: str) -> None:
    """A failure that another attempt cannot change is reported at once."""
    fake = fake_git(f'echo "{said}" >&2; exit 128')

    with pytest.raises(SourceError):
        await Fetcher(home, environ=environ).fetch(URI)

    assert clones(fake) == 1


async def test_the_second_attempt_can_succeed(home: Home, environ: Environ, fake_git: FakeGit) -> None:
    """What a failed attempt left is out of the way of the next one."""
    fake_git(
        """
for last; do :; done
case "$*" in
  *rev-parse*) echo 0123456789012345678901234567890123456789;;
  *clone*)
    test -z "$(ls -A "$last")" || { echo "fatal: not empty: certificate" >&2; exit 128; }
    touch "$last/bundle.md"
    test -e "$HERE/failed" || { touch "$HERE/failed"; mkdir "$last/part"; echo "fatal: early EOF" >&2; exit 128; };;
esac"""
    )

    fetched = await Fetcher(home, environ=environ).fetch(URI)

    assert (fetched.path / "bundle.md").exists()
    assert not (fetched.path / "part").exists()


async def test_a_hanging_git_is_stopped_with_its_children(
    home: Home, environ: Environ, fake_git: FakeGit, is_gone: Gone
) -> None:
    """After the time that the variable allows git is killed with all it started; that is not tried again."""
    fake = fake_git(HANGS)
    for seconds in (1, 8, 64):  # more than once only on a machine that is very busy
        environ["AMPLIFIER_GIT_CLONE_TIMEOUT_S"] = str(seconds)
        (fake / "calls").unlink(missing_ok=True)
        with pytest.raises(SourceError, match=f"longer than {seconds} s and was stopped; set AMPLIFIER_GIT_CLONE_TIME"):
            await Fetcher(home, environ=environ).fetch(URI)
        if (fake / "pids").exists():
            break

    assert all(is_gone(pid) for pid in pids(fake))
    assert clones(fake) == 1
    assert kept(home) == []


async def test_cancelling_stops_git_with_its_children(
    home: Home, environ: Environ, fake_git: FakeGit, is_gone: Gone, until: Until
) -> None:
    """A cancelled fetch leaves no process and no folder behind."""
    fake = fake_git(HANGS)
    fetching = asyncio.ensure_future(Fetcher(home, environ=environ).fetch(URI))
    assert await asyncio.to_thread(until, (fake / "pids").exists)

    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching

    assert all(is_gone(pid) for pid in pids(fake))
    assert kept(home) == []


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
async def test_a_time_limit_that_is_none(home: Home, environ: Environ, text: str) -> None:
    """A limit that is no positive number is an error that names the variable, not ignored."""
    environ["AMPLIFIER_GIT_CLONE_TIMEOUT_S"] = text

    with pytest.raises(SourceError, match=f"AMPLIFIER_GIT_CLONE_TIMEOUT_S='{text}'"):
        await Fetcher(home, environ=environ).fetch(URI)


async def test_without_git(home: Home, environ: Environ, tmp_path: Path) -> None:
    """A machine without git gets an error that says so."""
    environ["PATH"] = str(tmp_path)

    with pytest.raises(SourceError, match="git is not installed"):
        await Fetcher(home, environ=environ).fetch(URI)


async def test_git_gets_the_url_and_the_ref_as_such(home: Home, environ: Environ, fake_git: FakeGit) -> None:
    """The ref is an option's value and the URL stands behind `--`: neither can be taken for an option."""
    fake = fake_git("exit 1")

    with pytest.raises(SourceError):
        await Fetcher(home, environ=environ).fetch(URI)

    call = (fake / "calls").read_text(encoding="utf-8").splitlines()[0]
    assert "-c core.longpaths=true" in call
    assert "clone --quiet --depth 1 --single-branch --branch main -- https://git.example/o/r " in call


async def test_errors_hold_no_credentials(home: Home, environ: Environ, fake_git: FakeGit) -> None:
    """A token in a URL is neither in the error nor in what is said on the way nor in the record."""
    fake_git("echo \"fatal: Authentication failed for 'https://me:s3cret@git.example/o/r'\" >&2; exit 128")
    said: list[str] = []

    with pytest.raises(SourceError) as caught:
        await Fetcher(home, environ=environ, on_progress=said.append).fetch("git+https://me:s3cret@git.example/o/r")

    assert "s3cret" not in str(caught.value)
    assert said == ["fetching git+https://***@git.example/o/r"]


def test_the_environment_for_git() -> None:
    """Git asks nothing and speaks English, and learns of proxies and CAs that only other programs know."""
    env = fetch_environment(
        {
            "HTTP_PROXY": "http://p",
            "SSL_CERT_FILE": "/ca.pem",
            "SSL_CERT_DIR": "/cas",
            "SSH_ASKPASS": "window",
            "GIT_DIR": "x",
            "PATH": "/y",
        }
    )

    assert env == {
        "HTTP_PROXY": "http://p",
        "http_proxy": "http://p",
        "SSL_CERT_FILE": "/ca.pem",
        "GIT_SSL_CAINFO": "/ca.pem",
        "SSL_CERT_DIR": "/cas",
        "GIT_SSL_CAPATH": "/cas",
        "PATH": "/y",
        "LC_ALL": "C",
        "GIT_DIR": os.devnull,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TEMPLATE_DIR": "",
        "GIT_TERMINAL_PROMPT": "0",
        "SSH_ASKPASS_REQUIRE": "never",
    }


def test_what_git_is_told_itself_wins() -> None:
    """Variables that are git's own are left as they are."""
    env = fetch_environment({"GIT_SSL_CAINFO": "/own", "SSL_CERT_FILE": "/other", "REQUESTS_CA_BUNDLE": "/third"})

    assert env["GIT_SSL_CAINFO"] == "/own"
    assert fetch_environment({"REQUESTS_CA_BUNDLE": "/third"})["GIT_SSL_CAINFO"] == "/third"


async def test_many_repositories_are_fetched_at_the_same_time(home: Home, environ: Environ, fake_git: FakeGit) -> None:
    """Eight fetches that only go on when all have begun do go on."""
    fake_git(
        """
for last; do :; done
case "$*" in
  *rev-parse*) echo 0123456789012345678901234567890123456789;;
  *) touch "$HERE/clone-$$" "$last/bundle.md"; while [ $(ls "$HERE" | grep -c clone-) -lt 8 ]; do sleep 0.02; done;;
esac"""
    )
    fetcher = Fetcher(home, environ={**environ, "TMPDIR": os.fspath(home.path)})

    fetched = await asyncio.gather(*(fetcher.fetch(f"git+https://git.example/o/r{number}") for number in range(8)))

    assert len({one.root for one in fetched}) == 8
