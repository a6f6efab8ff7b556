"""What a sandbox stops is recognised by what programs say then, and nothing else is."""

from __future__ import annotations

import pytest

from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import blocked_by
from amplifier_kit.guard.sandbox.sandbox import Sandbox, inner_environment


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("curl: (6) Could not resolve host: example.com", "network"),
        ("ping: connect: Network is unreachable", "network"),
        ("fatal: unable to access 'https://example.com/': Could not resolve host: example.com", "network"),
        ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "network"),
        ("npm error code EAI_AGAIN", "network"),
        ("getaddrinfo ENOTFOUND example.com", "network"),
        ("dial tcp: lookup example.com: no such host", "network"),
        ("curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect to server", "network"),
        ("connect ECONNREFUSED 127.0.0.1:3000", "network"),
        ("touch: cannot touch '/usr/x': Read-only file system", "filesystem"),
        ("OSError: [Errno 30] Read-only file system: '/x'", "filesystem"),
        ("error: could not lock config file: EROFS", "filesystem"),
        ("mv: cannot move 'a' to '.git/hooks': Device or resource busy", "filesystem"),
        ("ls: cannot access 'x': No such file or directory", None),
        ("AssertionError: 1 != 2", None),
        ("Permission denied", None),
        ("", None),
    ],
)
def test_words(text: str, kind: str | None) -> None:
    """The words of many programs are known; an ordinary failure is nobody's fault but its own."""
    found = blocked_by(f"some output\n{text}\n", network=False)
    assert (found.kind if found else None) == kind


def test_what_is_allowed_is_not_stopped() -> None:
    """With a network, a host that does not answer is no matter of the sandbox."""
    assert blocked_by("Could not resolve host: example.com", network=True) is None
    found = blocked_by("Read-only file system", network=True)
    assert found is not None
    assert "`sandbox: {writable: [FOLDER]}` in the config of some-tool." in found.message("the config of some-tool")


def test_success_is_not_stopped(bubblewrap: None) -> None:
    """Nothing is said about a command that succeeded, nor where there is no sandbox."""
    box = Sandbox(SandboxConfig(), __file__.rpartition("/")[0])
    assert box.blocked_by(1, "Read-only file system") is None
    assert box.status.is_active
    assert box.blocked_by(0, "Read-only file system") is None
    assert box.blocked_by(None, "Read-only file system") is None
    assert box.blocked_by(1, "Read-only file system") is not None
    off = Sandbox(SandboxConfig(mode="off"), ".")
    assert (off.status.status, off.blocked_by(1, "Read-only file system")) == ("off", None)


def test_environment() -> None:
    """What leads to the host is taken out unless it is named; proxies stay where there is a network."""
    given = {"A": "1", "HTTPS_PROXY": "p", "no_proxy": "n", "SSH_AUTH_SOCK": "/s", "TMPDIR": "/t", "HOME": "/h"}
    assert inner_environment(given, network=False) == {"A": "1", "HOME": "/h"}
    assert inner_environment(given, network=True) == {"A": "1", "HOME": "/h", "HTTPS_PROXY": "p", "no_proxy": "n"}
    assert inner_environment(given, network=False, kept=["SSH_AUTH_SOCK"])["SSH_AUTH_SOCK"] == "/s"
    for home in ({}, {"HOME": ""}, {"HOME": "/"}):
        assert inner_environment(home, network=False)["HOME"] == "/tmp"
