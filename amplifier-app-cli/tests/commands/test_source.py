"""`amplifier source`: other places for modules and bundles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.source import source

Run = Callable[..., Result]


@pytest.fixture
def run(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `amplifier source` in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    (project / "modules" / "tool-x").mkdir(parents=True)
    return lambda *arguments: CliRunner().invoke(source, list(arguments))


def _listed(run: Run) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(run("list", "--format", "json").stdout)
    return listed


def test_empty_list_says_what_to_do(run: Run) -> None:
    """Without any entry the list is empty, and says which command adds one."""
    result = run("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "amplifier source add" in result.stderr


def test_module_and_bundle_are_distinguished(run: Run) -> None:
    """A module is known by the beginning of its id, a bundle by its name or address; else a flag says which."""
    assert run("add", "tool-x", "./modules/tool-x").exit_code == 0
    assert run("add", "minimal", "git+https://localhost/x@main").exit_code == 0
    assert run("add", "git+https://localhost/y@main", "./modules").exit_code == 0
    result = run("add", "thing", "./modules")
    assert result.exit_code == 2
    assert "--module or --bundle" in result.stderr
    assert run("add", "thing", "./modules", "--module").exit_code == 0
    assert run("add", "thing", "./modules", "--module", "--bundle").exit_code == 2
    assert [(one["kind"], one["id"]) for one in _listed(run)] == [
        ("module", "tool-x"),
        ("module", "thing"),
        ("bundle", "minimal"),
        ("bundle", "git+https://localhost/y@main"),
    ]


def test_stronger_scope_counts(run: Run, project: Path) -> None:
    """Of two scopes the stronger one counts; both are listed, and adding to the weaker one says so."""
    run("add", "tool-x", "git+https://localhost/x@one", "--project")
    result = run("add", "tool-x", "git+https://localhost/x@two")
    assert f"{project / '.amplifier' / 'settings.yaml'}:" in result.stderr
    assert [(one["source"][-3:], one["scope"], one["used"]) for one in _listed(run)] == [
        ("two", "user", False),
        ("one", "project", True),
    ]
    assert json.loads(run("show", "tool-x", "--format", "json").stdout)["places"][0]["source"].endswith("one")


def test_path_that_leads_nowhere_is_refused(run: Run) -> None:
    """An invalid source, or a missing folder, is not written."""
    assert run("add", "tool-x", "./nowhere").exit_code == 2
    assert run("add", "tool-x", "C:\\tools").exit_code == 1
    assert _listed(run) == []


def test_passwords_are_not_shown(run: Run, environment: dict[str, str]) -> None:
    """An address with a password is not written, and one that was written by hand is listed without it."""
    uri = "git+https://me:hunter22@localhost/x@main"
    result = run("add", "tool-x", uri)
    assert result.exit_code == 1
    assert "hunter22" not in result.output
    home = Path(environment["HOME"]) / ".amplifier"
    (home / "settings.yaml").write_text(f"sources: {{modules: {{tool-x: '{uri}'}}}}\n", encoding="utf-8")
    for command in (("list",), ("list", "--format", "json"), ("show", "tool-x")):
        output = run(*command).output
        assert "localhost/x@main" in output
        assert "hunter22" not in output


def test_show_follows_the_order_that_counts(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder named by the environment counts most, then settings, then what is installed."""
    run("add", "loop-basic", "./modules", "--local")
    monkeypatch.setenv("AMPLIFIER_MODULE_LOOP_BASIC", str(project))
    places = json.loads(run("show", "loop-basic", "--format", "json").stdout)["places"]
    assert [place["kind"] for place in places] == ["folder", "module", "installed"]
    assert places[0]["source"] == str(project)


def test_remove_takes_one_scope_back(run: Run) -> None:
    """Removing says which scope has an entry that this one has not, and hints at a name nearby."""
    run("add", "tool-x", "./modules/tool-x", "--project")
    result = run("remove", "tool-x")
    assert result.exit_code == 2
    assert "--scope project" in result.stderr
    assert "did you mean 'tool-x'?" in run("remove", "tool-xx").stderr
    assert run("remove", "tool-x", "--project").exit_code == 0
    assert _listed(run) == []


def test_unknown_name_is_an_error(run: Run) -> None:
    """What nothing speaks of has no source to show."""
    assert run("show", "nothing").exit_code == 2
