"""`amplifier doctor` names the MCP servers that a run would start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.doctor import doctor
from amplifier_app_cli.mcp.config import find_servers
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.store import TrustStore

_PLAN = {"tools": [{"module": "tool-mcp", "config": {"servers": {"inline": {"command": "x"}}}}]}
Doctor = Callable[..., list[tuple[str, str]]]


def _write(path: Path, *names: str, **more: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries: dict[str, object] = {name: {"command": "x"} for name in names}
    path.write_text(json.dumps({"mcpServers": {**entries, **more}}), encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home of the program, and go into the project."""
    path = tmp_path / "amplifier"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    monkeypatch.delenv("AMPLIFIER_MCP_CONFIG", raising=False)
    monkeypatch.chdir(project)
    return path


@pytest.fixture
def checked(home: Path) -> Doctor:
    """Return a function that gives the status and the text of each finding about servers."""

    def run() -> list[tuple[str, str]]:
        result = CliRunner().invoke(doctor, ["--format", "json"], obj=App(), catch_exceptions=False)
        checks = json.loads(result.stdout)["checks"]
        assert all(found["remedy"] for found in checks if found["check"] == "mcp" and found["status"] == "warn")
        return [(found["status"], found["detail"]) for found in checks if found["check"] == "mcp"]

    return run


def test_no_servers(checked: Doctor) -> None:
    """Without servers the line says so."""
    assert checked() == [("ok", "no servers")]


@pytest.mark.parametrize("bundle", ["default", "minimal"])
def test_servers_of_the_user(checked: Doctor, home: Path, bundle: str) -> None:
    """Servers are named with their file; when nothing in the bundle would start them, that is a warning."""
    _write(home / "mcp.json", "notes", "files")
    (home / "settings.yaml").write_text(f"bundle: {{active: {bundle}}}\n", encoding="utf-8")
    listed = f"notes ({home}/mcp.json), files ({home}/mcp.json)"
    absent = ("warn", f"not used, because the bundle has no tool-mcp: {listed}")
    assert checked() == [("ok", listed) if bundle == "default" else absent]


def test_a_project_that_is_not_trusted(checked: Doctor, project: Path) -> None:
    """Its servers are named, and that they are not started."""
    _write(project / ".mcp.json", "theirs")
    assert ("warn", f"not started, because the project is not trusted: theirs ({project}/.mcp.json)") in checked()


def test_all_places(home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later places take the place of earlier ones, one that is switched off is gone, and trust makes files count."""
    _write(home / "mcp.json", "notes", "gone", "inline")
    _write(project / ".mcp.json", "theirs", gone={"disabled": True})
    _write(tmp_path / "more.json", "more", "notes")
    monkeypatch.setenv("AMPLIFIER_MCP_CONFIG", str(tmp_path / "more.json"))
    TrustStore(Home.find()).trust(project)
    found = find_servers(App(), _PLAN)
    more = str(tmp_path / "more.json")
    used = {server.name: server.origin for server in found.servers if server.state == "enabled"}
    assert used == {"theirs": f"{project}/.mcp.json", "more": more, "notes": more, "inline": "the bundle"}
    assert found.named("gone").state == "disabled"
    assert (found.problems, found.has_module) == ((), True)


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 1}', "[" * 100_000, " " * (1 << 21)])
def test_files_that_cannot_be_used(checked: Doctor, home: Path, text: str) -> None:
    """A file that is not a config is a warning that names it, and the check continues."""
    (home / "mcp.json").write_text(text, encoding="utf-8")
    (warning, rest) = checked()
    assert warning[0] == "warn"
    assert warning[1].startswith(f"{home}/mcp.json: ")
    assert rest == ("ok", "no servers")


def test_a_file_that_is_not_there(checked: Doctor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the environment names must be there."""
    monkeypatch.setenv("AMPLIFIER_MCP_CONFIG", str(home / "none.json"))
    assert checked()[0] == ("warn", f"{home}/none.json: there is no such file; $AMPLIFIER_MCP_CONFIG names it")
