"""What programs inside find: their environment, names, certificates, and the program in front of uv."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from amplifier_digital_twin.profile.model import Network, Profile, User, UvPolicy
from amplifier_digital_twin.services.surroundings import (
    CA_BUNDLE,
    REAL_UV,
    TOOLS,
    environment,
    hosts_file,
    trusted_certificates,
    uv_shim,
)

PROFILE = Profile("p", Path("/p.yaml"), network=Network("gateway"), environment=(("MINE", "1"), ("LANG", "de")))
INDEX = "http://127.0.0.1:3141/at/x/simple/"


def test_environment_leads_to_the_services() -> None:
    """Proxy in every spelling, the index, certificates, and uv's way past the mirror closed."""
    found = environment(PROFILE, User(), {"KEY": "value"}, INDEX)
    assert found["https_proxy"] == found["HTTPS_PROXY"] == found["http_proxy"] == "http://127.0.0.1:3128"
    assert found["UV_DEFAULT_INDEX"] == found["PIP_INDEX_URL"] == INDEX
    assert found["SSL_CERT_FILE"] == found["REQUESTS_CA_BUNDLE"] == found["GIT_SSL_CAINFO"] == CA_BUNDLE
    assert found["UV_NO_GITHUB_FAST_PATH"] == "true"
    assert "127.0.0.2" in found["no_proxy"].split(",")
    assert (found["MINE"], found["LANG"], found["KEY"], found["HOME"]) == ("1", "de", "value", "/home/user")


def test_allow_uv_github_fast_path() -> None:
    """uv may ask the hosting service only where the profile says so."""
    profile = dataclasses.replace(PROFILE, uv=UvPolicy(github_fast_path=True))
    assert "UV_NO_GITHUB_FAST_PATH" not in environment(profile, User(), {}, INDEX)


def test_environment_without_services_and_nothing_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is served there is nothing to lead to; the host's variables never get in."""
    monkeypatch.setenv("OF_THE_HOST", "x")
    found = environment(PROFILE, User("root", 0), {}, None)
    assert set(found) == {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "MINE"}
    assert found["HOME"] == "/root"


def test_hosts_file_names_what_is_answered_for() -> None:
    """Names that the universe answers lead to the interceptor, its own name to itself."""
    lines = hosts_file("twin", ["a.example", "b.example"]).decode().splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    assert lines[-2:] == ["127.0.0.2 a.example", "127.0.0.2 b.example"]
    assert "127.0.1.1 twin" in lines


def test_certificates_of_host_and_universe(tmp_path: Path) -> None:
    """Both are trusted; a bundle that the host's environment names is the host's."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("\nOF THE HOST\n\n", encoding="utf-8")
    environ = {"SSL_CERT_FILE": str(bundle)}
    assert trusted_certificates(b"OURS\n", environ) == b"OF THE HOST\nOURS\n"
    assert trusted_certificates(None, environ) == b"OF THE HOST\n"


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """Return a folder in which the program in front of uv can be written; the uv in it says how it was called."""
    real = tmp_path / REAL_UV
    real.write_text('#!/bin/sh\necho "$UV_FROZEN:$*" >> "$(dirname "$0")/calls"\nexit ${CODE:-0}\n', encoding="utf-8")
    real.chmod(0o755)
    return tmp_path


def call(folder: Path, policy: str, *words: str, **more: str) -> tuple[int, str, list[str]]:
    """Run the program in front of uv; return its code, what it says and how uv was called."""
    program = folder / "uv"
    program.write_bytes(uv_shim(policy).replace(TOOLS.encode(), os.fsencode(folder)))
    program.chmod(0o755)
    calls = folder / "calls"
    calls.write_text("", encoding="utf-8")
    environ = {"PATH": "/usr/bin:/bin", **more}
    done = subprocess.run([str(program), *words], env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, calls.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("policy", ["refuse", "relock"])
@pytest.mark.parametrize(
    "words", [("sync",), ("run", "--", "tool", "--frozen"), ("pip", "install", "a b"), ("--version",)]
)
def test_shim_passes_everything_else_on(shim: Path, policy: str, words: tuple[str, ...]) -> None:
    """Words, codes and an environment that does not freeze come through as they are."""
    assert call(shim, policy, *words, CODE="7") == (7, "", [f":{' '.join(words)}"])
    assert call(shim, policy, *words, UV_FROZEN="0")[2] == [f"0:{' '.join(words)}"]


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("sync", "--frozen"), {}),
        (("run", "--frozen", "--", "pytest"), {}),
        (("sync",), {"UV_FROZEN": "1"}),
        (("export",), {"UV_FROZEN": "true"}),
    ],
)
def test_shim_refuses_what_ignores_the_index(shim: Path, words: tuple[str, ...], more: dict[str, str]) -> None:
    """uv itself is not called, and what to do instead is said."""
    code, said, calls = call(shim, "refuse", *words, **more)
    assert (code, calls) == (2, [])
    assert "uv.lock: relock" in said


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("sync", "--frozen"), ""),
        (("--project", "a b", "sync", "--frozen"), "--project a b"),
        (("sync", "--frozen", "--project=x"), "--project x"),
        (("--directory", "d", "sync", "--frozen", "--project", "p"), "--directory d --project p"),
    ],
)
def test_shim_locks_again_first(shim: Path, words: tuple[str, ...], where: str) -> None:
    """The lock of the same project is made anew, by a uv that is not frozen; then the command is as it was."""
    code, _, calls = call(shim, "relock", *words, UV_FROZEN="1")
    assert code == 0
    assert calls == [f":{where} lock --quiet".replace(": ", ":"), f"1:{' '.join(words)}"]


def test_shim_stops_when_locking_fails(shim: Path) -> None:
    """A lock that cannot be made is not replaced by the old one."""
    code, _, calls = call(shim, "relock", "sync", "--frozen", CODE="5")
    assert (code, calls) == (5, [":lock --quiet"])
