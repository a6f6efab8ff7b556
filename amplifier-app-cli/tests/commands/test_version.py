"""`amplifier version`, and how little the commands import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from amplifier_app_cli import __version__
from amplifier_app_cli.commands import version as version_file

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_HEAVY = ("asyncio", "pydantic", "yaml", "amplifier_core", "rich", "prompt_toolkit", "httpx2", "sqlite3", "keyring")


def test_version(amplifier: Amplifier) -> None:
    """Plainly, the version is one line, the same as with --version."""
    assert amplifier("version").stdout == amplifier("--version").stdout == f"amplifier {__version__}\n"


def test_version_for_programs(amplifier: Amplifier, environment: dict[str, str]) -> None:
    """With --json there is everything a report of trouble needs."""
    facts = json.loads(amplifier("version", "--json").stdout)
    assert facts["amplifier"] == __version__
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["home"] == str(Path(environment["HOME"]) / ".amplifier")
    assert {"amplifier-core", "amplifier-kit", "amplifier-module-provider-mock"} <= facts["packages"].keys()
    assert set(facts["packages"].values()) == {__version__}
    assert facts["platform"]


def test_verbose(amplifier: Amplifier) -> None:
    """With -v every part is on its own line."""
    assert f"amplifier-foundation {__version__}" in amplifier("version", "-v").stdout.splitlines()


def test_parts_without_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only parts are installed, the ones that every program needs are reported."""

    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", missing)
    assert list(version_file.first_party_versions()) == [
        "amplifier-core",
        "amplifier-kit",
        "amplifier-foundation",
        "amplifier-app-cli",
    ]


def test_part_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing part is reported as such."""
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["amplifier-none-such==3.0.0", "click>=8"])
    versions = version_file.first_party_versions()
    assert versions["amplifier-none-such"] is None
    assert "click" not in versions


@pytest.mark.parametrize(
    "name",
    ["settings", "keys", "trust", "dirs", "provider", "init", "doctor", "reset", "version", "completion"],
)
def test_commands_import_little(name: str) -> None:
    """Importing a command, as its help and the completion do, loads nothing that takes time."""
    code = f"import sys, amplifier_app_cli.commands.{name}; print(*[m for m in {_HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == []
