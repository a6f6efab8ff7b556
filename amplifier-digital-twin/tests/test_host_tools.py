"""Which programs of the host a universe gets, and how one that is missing is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from amplifier_digital_twin import host_tools
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.host_tools import host_facts, portable_tools, with_packaged_tools
from amplifier_digital_twin.profile.model import Base


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the folder of the interpreter and one on the path, both empty."""
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    monkeypatch.setenv("PATH", str(other))
    return own, other


def program(path: Path, content: bytes = b"\x7fELF and more") -> Path:
    """Make a program."""
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def test_tool_beside_the_interpreter_wins(folders: tuple[Path, Path]) -> None:
    """The uv that belongs to this installation is taken before any other."""
    own, other = (program(folder / "uv") for folder in folders)
    assert portable_tools(Base(tools=("uv", "git"))) == {"uv": own}
    own.unlink()
    assert portable_tools(Base(tools=("uv",))) == {"uv": other}
    assert portable_tools(Base()) == {}


def test_link_to_a_tool_is_resolved(folders: tuple[Path, Path]) -> None:
    """What is copied is the program, wherever the link to it lies."""
    real = program(folders[1] / "uv-1.0")
    (folders[1] / "uv").symlink_to(real)
    assert portable_tools(Base(tools=("uv",))) == {"uv": real}


def test_script_is_no_tool(folders: tuple[Path, Path]) -> None:
    """A version manager's shim leads back to the host, where a universe cannot go."""
    program(folders[0] / "uv", b"#!/bin/sh\nexec version-manager uv\n")
    (folders[1] / "uv").mkdir()
    with pytest.raises(TwinError, match="`uv`") as caught:
        portable_tools(Base(tools=("uv",)))
    assert caught.value.code == "tool_missing"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_tool_that_cannot_be_read_is_passed_over(folders: tuple[Path, Path]) -> None:
    """A program in a place that is closed to this user is as one that is not there."""
    program(folders[0] / "uv").chmod(0)
    other = program(folders[1] / "uv")
    assert portable_tools(Base(tools=("uv",))) == {"uv": other}


def test_another_uv_is_another_host(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was provisioned with one is not taken for what the other would have made; nor on another system."""
    tool = program(folders[0] / "uv")
    base = Base(tools=("uv",))
    first = host_facts(base)
    assert host_facts(base) == first
    os.utime(tool, ns=(1, 1))
    second = host_facts(base)
    assert second != first
    monkeypatch.setattr(host_tools, "_RELEASE", tool)
    assert host_facts(base) != second
    assert host_facts(Base("debian:12")) == "[]"


def test_tool_of_many_files_is_a_package_of_a_debian_base() -> None:
    """What cannot be copied is installed, once, beside the packages that the profile names."""
    base = Base("debian:12", packages=("curl",), tools=("uv", "git", "curl"))
    assert with_packaged_tools(base).packages == ("curl", "git")


def test_tool_of_many_files_must_be_on_the_host() -> None:
    """On the host's base it is there or not: nothing is installed."""
    assert with_packaged_tools(Base(tools=("sh", "uv"))) == Base(tools=("sh", "uv"))
    with pytest.raises(TwinError, match="no-such-program") as caught:
        with_packaged_tools(Base(tools=("no-such-program",)))
    assert caught.value.code == "tool_missing"
