"""`amplifier doctor`: every check can be good and bad, and says what to do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands import doctor as doctor_file
from amplifier_app_cli.commands.doctor import doctor
from amplifier_app_cli.providers.known import all_key_names
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.store import TrustStore

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_CHECKS = (
    "python",
    "packages",
    "home",
    "disk",
    "settings",
    "keys",
    "bundle",
    "modules",
    "provider",
    "mcp",
    "trust",
    "index",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home of the program, and an environment without keys."""
    path = tmp_path / "amplifier"
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    for name in all_key_names():
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command in the project."""
    monkeypatch.chdir(project)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(doctor, list(arguments), obj=App(), catch_exceptions=False)

    return invoke


def _found(result: Result, check: str) -> list[dict[str, Any]]:
    return [found for found in json.loads(result.stdout)["checks"] if found["check"] == check]


def _status(result: Result, check: str) -> str:
    """Return the worst that a check found."""
    return min((str(found["status"]) for found in _found(result, check)), key=["fail", "warn", "ok"].index)


def test_fresh_machine(amplifier: Amplifier, environment: dict[str, str]) -> None:
    """With nothing set up all is well enough: exit code 0, every check reported, and nothing created in the home."""
    result = amplifier("doctor", "--format", "json")
    assert result.returncode == 0, result.stdout
    report = json.loads(result.stdout)
    assert report["status"] == "ok"
    names = [found["check"] for found in report["checks"]]
    assert set(names) >= {*_CHECKS, "uv", "git", "bwrap", "rg"}
    assert all(found["remedy"] for found in report["checks"] if found["status"] == "warn")
    assert not (Path(environment["HOME"]) / ".amplifier").exists()


def test_for_people(run: Run) -> None:
    """Each line starts with its state; what to do stands below it."""
    lines = run().stdout.splitlines()
    assert all(line.startswith(("ok ", "warn ", "fail ", "     ")) for line in lines)
    assert any("→ for a real model: `amplifier init`" in line for line in lines)


def test_broken_settings(run: Run, home: Path) -> None:
    """Settings that cannot be read are a failure with file and line; other checks run."""
    home.mkdir()
    (home / "settings.yaml").write_text("bundle: {\n")
    result = run("--format", "json")
    assert result.exit_code == 1
    assert "settings.yaml:2" in _found(result, "settings")[0]["detail"]
    assert _status(result, "index") == "ok"


def test_modes_of_files(run: Run, home: Path) -> None:
    """Keys that others could read, and settings that others could change, are warned of."""
    home.mkdir()
    (home / "keys.env").write_text('MY_KEY="x"\n')
    (home / "keys.env").chmod(0o644)
    (home / "settings.yaml").write_text("bundle: {active: minimal}\n")
    (home / "settings.yaml").chmod(0o666)
    result = run("--format", "json")
    assert result.exit_code == 0
    assert _status(result, "keys") == "warn"
    assert _status(result, "settings") == "warn"
    assert "MY_KEY (file)" in _found(result, "keys")[-1]["detail"]


def test_malformed_keys(run: Run, home: Path) -> None:
    """A keys file that cannot be understood is a failure that shows nothing of it."""
    home.mkdir()
    (home / "keys.env").write_text("a secret\n")
    result = run("--format", "json")
    assert result.exit_code == 1
    assert _status(result, "keys") == "fail"
    assert "a secret" not in result.output


def test_bundle_that_is_missing(run: Run, project: Path) -> None:
    """A bundle that cannot be composed is a failure."""
    (project / ".amplifier").mkdir()
    (project / ".amplifier/settings.yaml").write_text("bundle: {active: none-such}\n")
    result = run("--format", "json")
    assert result.exit_code == 1
    assert "none-such" in _found(result, "bundle")[0]["detail"]


def test_bundle_that_was_never_fetched(run: Run, home: Path) -> None:
    """A bundle that would have to be fetched is not a failure, and is not fetched."""
    home.mkdir()
    (home / "settings.yaml").write_text("bundle: {active: 'git+https://127.0.0.1:1/org/repo@main'}\n")
    result = run("--format", "json")
    assert _status(result, "bundle") == "warn"


def test_module_that_is_missing(run: Run, project: Path, home: Path) -> None:
    """Every module that does not load is a failure with its name, and the number of good ones is reported."""
    (whole,) = [found["detail"] for found in _found(run("--format", "json"), "modules")]
    good = int(whole.split()[0])
    assert good > 2
    home.mkdir()
    (home / "settings.yaml").write_text("modules: {tools: [{module: tool-none-such}, {module: tool-nothing}]}\n")
    result = run("--format", "json")
    assert result.exit_code == 1
    details = [found["detail"] for found in _found(result, "modules")]
    assert details[0].startswith("tool-none-such: ")
    assert details[1].startswith("tool-nothing: ")
    assert details[2] == f"{good} of {good + 2} load"


def test_modules_of_an_untrusted_project(run: Run, project: Path) -> None:
    """What an untrusted project names is not loaded, and that is said."""
    folder = project / ".amplifier/modules/tool-x/amplifier_module_tool_x"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise SystemExit('it ran')\n")
    (project / ".amplifier/settings.yaml").write_text("modules: {tools: [{module: tool-x}]}\n")
    result = run("--format", "json")
    assert _status(result, "modules") == "warn"
    assert "amplifier trust" in _found(result, "modules")[0]["remedy"]


def test_provider(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted model is a warning that says what to do; a key that is not used is reported."""
    assert "amplifier init" in _found(run("--format", "json"), "provider")[0]["remedy"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    found = _found(run("--format", "json"), "provider")[0]
    assert (found["status"], "ANTHROPIC_API_KEY" in found["detail"]) == ("ok", True)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert "OPENAI_API_KEY is too" in _found(run("--format", "json"), "provider")[0]["detail"]


def test_configured_provider_without_its_key(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that a run would refuse for want of its key is a failure that names the variable."""
    home.mkdir(mode=0o700)
    (home / "settings.yaml").write_text("config: {providers: [{module: provider-anthropic}]}\n")
    result = run("--format", "json")
    assert _status(result, "provider") == "fail"
    assert result.exit_code == 1
    assert _found(result, "provider")[0]["remedy"] == "`amplifier keys set ANTHROPIC_API_KEY`"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    assert _status(run("--format", "json"), "provider") == "ok"


def test_trust(run: Run, home: Path, project: Path) -> None:
    """A project that changed since it was trusted is warned of; a store that cannot be read is a failure."""
    store = TrustStore(Home(home))
    store.trust(project)
    assert "is trusted" in _found(run("--format", "json"), "trust")[0]["detail"]
    (project / "bundle.yaml").write_text("bundle: {name: x}\n")
    assert _status(run("--format", "json"), "trust") == "warn"
    (home / "trust.json").write_text("{")
    assert _status(run("--format", "json"), "trust") == "fail"


def test_index_that_is_damaged(run: Run, home: Path) -> None:
    """A damaged index is a warning: it is rebuilt."""
    home.mkdir()
    (home / "index.sqlite").write_bytes(b"no database at all" * 100)
    assert _status(run("--format", "json"), "index") == "warn"


def test_home_that_is_a_file(run: Run, home: Path) -> None:
    """A home that cannot hold anything is a failure."""
    home.write_text("in the way")
    result = run("--format", "json")
    assert result.exit_code == 1
    assert _status(result, "home") == "fail"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_home_that_cannot_be_written(run: Run, home: Path) -> None:
    """A home that belongs to another user is a failure."""
    home.mkdir(mode=0o500)
    assert _status(run("--format", "json"), "home") == "fail"


def test_versions_that_differ(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of another release, and parts that are missing, are a failure that names them."""
    versions = {"amplifier-core": "2.9.0", "amplifier-kit": None}
    monkeypatch.setattr("amplifier_app_cli.commands.doctor.first_party_versions", lambda: versions)
    result = run("--format", "json")
    assert result.exit_code == 1
    assert "amplifier-core 2.9.0, amplifier-kit not installed" in _found(result, "packages")[0]["detail"]


@pytest.mark.parametrize(("free", "status"), [(10**6, "fail"), (10**8, "warn"), (10**10, "ok")])
def test_disk(run: Run, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    """Little space is warned of, too little is a failure."""
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert _status(run("--format", "json"), "disk") == status


def test_programs_that_are_missing(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs that are not there are warnings that say what they are for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor_file, "_find_uv", lambda app: None)
    result = run("--format", "json")
    for name in ("uv", "git", "bwrap", "rg"):
        assert _status(result, name) == "warn"
        assert "it is for" in _found(result, name)[0]["detail"]


def test_a_sandbox_that_does_not_work(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bubblewrap that is there and that the system does not let work is a warning with the reason."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("--format", "json")
    assert _status(result, "bwrap") == "warn"
    assert "No permissions to create new namespace" in _found(result, "bwrap")[0]["detail"]
