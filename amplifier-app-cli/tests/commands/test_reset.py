"""`amplifier reset`: what goes, what stays, and that nothing else goes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.reset import CATEGORIES, reset

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_FILES = {
    "projects": ("projects/-p/sessions/s1/events.jsonl", "index.sqlite", "index.sqlite-wal"),
    "settings": ("settings.yaml", "settings.yaml.lock", "routing/x.yaml"),
    "keys": ("keys.env", "keys.env.lock"),
    "cache": ("cache/repo-1/file", ".update_cache.json"),
    "registry": ("registry.json", "locks/a.lock"),
    "other": ("bundles/mine.md", "trust.json", "AGENTS.md"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with something of every category in it."""
    path = tmp_path / "home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for file in (file for files in _FILES.values() for file in files):
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text("")
    (path / "cache/repo-1/file").write_bytes(b"x" * 1500)
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command in the project."""
    monkeypatch.chdir(project)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(reset, list(arguments), obj=App(), catch_exceptions=False)

    return invoke


def _left(home: Path) -> set[str]:
    """Return the categories of which everything is left."""
    return {category for category, files in _FILES.items() if all((home / file).exists() for file in files)}


def _gone(home: Path) -> set[str]:
    return {category for category, files in _FILES.items() if not any((home / file).exists() for file in files)}


@pytest.mark.parametrize("category", CATEGORIES)
def test_remove_one_category(run: Run, home: Path, category: str) -> None:
    """Everything of the category goes, with its locks, and nothing else."""
    assert run("--remove", category, "--yes").exit_code == 0
    assert _gone(home) == {category}
    assert _left(home) == set(CATEGORIES) - {category}


def test_preserve_and_full(run: Run, home: Path) -> None:
    """What is preserved stays, all else goes; a full reset leaves an empty folder."""
    assert run("--preserve", "projects, keys", "-y").exit_code == 0
    assert _left(home) == {"projects", "keys"}
    assert run("--full", "-y").exit_code == 0
    assert list(home.iterdir()) == []
    again = run("--full", "-y")
    assert again.exit_code == 0
    assert "nothing to delete" in again.stderr


def test_dry_run_shows_sizes(run: Run, home: Path) -> None:
    """A dry run deletes nothing, shows sizes to people, and bytes and paths to programs."""
    assert "1.5 kB   delete" in run("--remove", "cache", "--dry-run").stderr
    record = json.loads(run("--remove", "cache", "--dry-run", "--format", "json").stdout)
    assert record["dry_run"] is True
    (cache,) = record["categories"]
    assert cache == {
        "category": "cache",
        "bytes": 1500,
        "paths": [str(home / ".update_cache.json"), str(home / "cache")],
    }
    assert _left(home) == set(CATEGORIES)


@pytest.mark.parametrize(
    "arguments", [(), ("--full",), ("--remove", "cache"), ("--remove", "cache", "--full"), ("--remove", "cahce")]
)
def test_without_a_terminal(run: Run, home: Path, arguments: tuple[str, ...]) -> None:
    """Without a terminal nothing is deleted unless --yes is given; what is meant must be clear."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert _left(home) == set(CATEGORIES)


def test_unknown_category_gets_a_hint(run: Run) -> None:
    """A slip of the pen is a usage error with the nearest name."""
    assert "did you mean 'cache'" in run("--remove", "cahce").stderr


def test_links_are_not_followed(run: Run, home: Path, tmp_path: Path) -> None:
    """What a link in the home leads to stays, at the top and further down."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (home / "skills").symlink_to(outside)
    (home / "cache/link").symlink_to(outside)
    assert run("--full", "--yes").exit_code == 0
    assert list(home.iterdir()) == []
    assert (outside / "file").read_text() == "mine"


def test_home_that_holds_more(run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the user's own folder or the project lies in the home, `other` is refused; the rest can go."""
    monkeypatch.setenv("HOME", str(home))
    result = run("--full", "--yes")
    assert result.exit_code == 1
    assert _left(home) == set(CATEGORIES)
    assert run("--remove", "cache", "--yes").exit_code == 0
    monkeypatch.setenv("HOME", str(tmp_path))
    inside = home / "work"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert run("--remove", "other", "--yes").exit_code == 1
    assert inside.is_dir()


def test_folder_that_is_no_home(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with nothing of this program in it is not emptied."""
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.png").write_text("")
    monkeypatch.setenv("AMPLIFIER_HOME", str(other))
    result = run("--full", "--yes")
    assert result.exit_code == 1
    assert "does not look like" in result.stderr
    assert (other / "cat.png").exists()


@pytest.fixture
def running(home: Path) -> Iterator[Path]:
    """Return the folder of a session that another process runs."""
    import fcntl

    folder = home / "projects/-p/sessions/s1"
    with open(folder / "events.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def test_running_session(run: Run, home: Path, running: Path) -> None:
    """Sessions are not deleted while one of them runs."""
    result = run("--full", "--yes")
    assert result.exit_code == 1
    assert running.name in result.stderr
    assert _left(home) == set(CATEGORIES)
    assert run("--remove", "cache", "--yes").exit_code == 0


def test_universes_are_in_the_way(run: Run, home: Path) -> None:
    """As long as the digital twin has universes in the home, what belongs to them is not deleted."""
    universe = home / "digital-twin" / "universes" / "dtu-0"
    universe.mkdir(parents=True)
    result = run("--full", "--yes")
    assert result.exit_code == 1
    assert "amplifier-digital-twin destroy" in result.stderr
    assert universe.is_dir()
    universe.rmdir()
    assert run("--full", "--yes").exit_code == 0
    assert not (home / "digital-twin").exists()


def test_keyring_is_emptied(amplifier_process: Amplifier, environment: dict[str, str]) -> None:
    """Keys that lie in the keyring are forgotten there too, also when the environment has them; a failure is said."""
    home = Path(environment["HOME"]) / ".amplifier"
    home.mkdir()
    (home / "keys.env").write_text("MY_KEY=@keyring\n")
    more = {"MY_KEY": "also in the environment", "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    result = amplifier_process("reset", "--remove", "keys", "--yes", **more)
    assert result.returncode == 0
    assert "MY_KEY may still be in the keyring" in result.stderr
    assert list(home.iterdir()) == []


def test_asks_at_a_terminal(at_terminal: Callable[..., Any], environment: dict[str, str]) -> None:
    """At a terminal the categories are asked for, and once more whether it is meant."""
    home = Path(environment["HOME"]) / ".amplifier"
    (home / "cache").mkdir(parents=True)
    child = at_terminal("reset")
    child.expect("Delete which categories")
    child.sendline("cache")
    child.expect("It cannot be undone")
    child.sendline("y")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert not (home / "cache").exists()


def test_program(amplifier: Amplifier) -> None:
    """The program itself deletes what it made."""
    assert amplifier("run", "hello").returncode == 0
    result = amplifier("reset", "--remove", "projects", "--yes", "--format", "json")
    assert result.returncode == 0, result.stderr
    assert [part["category"] for part in json.loads(result.stdout)["categories"]] == ["projects"]
    assert amplifier("logs").returncode == 2
