"""`amplifier bundle explain` and `validate`: who set what, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.bundle import bundle

Run = Callable[..., Result]
_KEY = "sk-" + "ant-api03-" + "q9" * 30

_BASE = """\
bundle: {name: base}
includes: [minimal]
providers:
  - module: provider-mock
    config: {default_model: small, tags: [one]}
"""
_OVER = """\
bundle: {name: over}
includes: [./base.yaml]
providers:
  - module: provider-mock
    config:
      default_model: large
      tags: [two]
"""


@pytest.fixture
def run(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `amplifier bundle` in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return lambda *arguments: CliRunner().invoke(bundle, list(arguments))


@pytest.fixture
def home(environment: dict[str, str]) -> Path:
    """Return the user's home."""
    return Path(environment["HOME"]) / ".amplifier"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _explained(run: Run, *arguments: str) -> dict[str, dict[str, Any]]:
    result = run("explain", *arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return {one["key"]: one for one in json.loads(result.stdout)}


def test_winner_and_losers_have_file_and_line(run: Run, project: Path, home: Path) -> None:
    """Of a value that three files set, the settings win, and both others are named with their lines."""
    _write(project / "base.yaml", _BASE)
    over = _write(project / "over.yaml", _OVER)
    settings = _write(
        home / "settings.yaml", "config:\n  providers:\n    - {module: provider-mock, config: {default_model: huge}}\n"
    )
    one = _explained(run, "./over.yaml")["providers.provider-mock.config.default_model"]
    assert (one["value"], one["where"]) == ("huge", f"{settings}:3")
    assert [(lost["value"], lost["where"]) for lost in one["lost"]] == [
        ("small", f"{project / 'base.yaml'}:5"),
        ("large", f"{over}:6"),
    ]


def test_joined_lists_name_both_files(run: Run, project: Path) -> None:
    """Lists of bundles are joined, and the earlier one is reported as joined, not as lost."""
    _write(project / "base.yaml", _BASE)
    _write(project / "over.yaml", _OVER)
    one = _explained(run, "./over.yaml")["providers.provider-mock.config.tags"]
    assert one["value"] == ["one", "two"]
    assert [joined["value"] for joined in one["joined"]] == [["one"]]
    assert one["lost"] == []


def test_text_says_the_same(run: Run, project: Path) -> None:
    """The text form has value, place, and what lost."""
    _write(project / "base.yaml", _BASE)
    over = _write(project / "over.yaml", _OVER)
    result = run("explain", "./over.yaml", "--key", "providers.provider-mock.config.default_model")
    assert result.stdout.splitlines() == [
        "providers.provider-mock.config.default_model: large",
        f"  set by {over}:6 (over)",
        f"  lost small, {project / 'base.yaml'}:5 (base)",
    ]


def test_key_limits_what_is_explained(run: Run) -> None:
    """--key takes a whole key or the beginning of one at a dot, and an unknown one gets a hint."""
    assert set(_explained(run, "--key", "session")) == {"session.orchestrator.module", "session.context.module"}
    assert set(_explained(run, "--key", "session.context.module")) == {"session.context.module"}
    for wrong in ("sess", "sesion"):
        result = run("explain", "--key", wrong)
        assert result.exit_code == 2
        assert "did you mean 'session'?" in result.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_masked(run: Run, project: Path, form: str) -> None:
    """A key in clear and a password in an address are shown by neither command, whichever won."""
    text = "bundle: {name: leaky}\nincludes: [minimal]\n"
    text += f"providers: [{{module: provider-mock, config: {{api_key: {_KEY}}}}}]\n"
    _write(
        project / "leaky.yaml",
        text + "tools:\n  - {module: tool-x, source: 'git+https://me:hunter22@localhost/x@main'}\n",
    )
    _write(
        project / "over.yaml",
        "bundle: {name: o}\nincludes: [./leaky.yaml]\n"
        "providers: [{module: provider-mock, config: {api_key: '${X}'}}]\n",
    )
    for path in ("./leaky.yaml", "./over.yaml"):
        for command in ("explain", "show"):
            result = run(command, path, "--format", form)
            assert result.exit_code == 0, result.stderr
            assert _KEY not in result.output
            assert "hunter22" not in result.output
    assert "${X}" in run("explain", "./over.yaml", "--format", form).stdout


def _validated(run: Run, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = run("validate", *arguments, "--format", "json")
    return result.exit_code, json.loads(result.stdout)


def test_valid_bundle_passes(run: Run, project: Path) -> None:
    """A file and its folder are valid when nothing is wrong with them."""
    _write(project / "bundle.yaml", _BASE)
    assert _validated(run, ".")[0] == 0
    assert _validated(run, "bundle.yaml") == (0, {"valid": True, "path": "bundle.yaml", "errors": [], "warnings": []})


def test_unknown_keys_are_faults_with_lines(run: Run, project: Path) -> None:
    """Every slip is an error with file, line and hint, and the exit code is 1."""
    path = _write(project / "bundle.yaml", "bundle: {name: x}\ntolls: []\nproviders:\n  - {modul: provider-mock}\n")
    result = run("validate", "bundle.yaml")
    assert result.exit_code == 1
    assert f"error: {path}:2: " in result.stdout
    assert "did you mean 'tools'?" in result.stdout
    assert f"error: {path}:4: " in result.stdout


def test_incomplete_bundle_is_a_fault_unless_it_is_a_part(run: Run, project: Path) -> None:
    """A bundle without loop, context and provider cannot run, but can be included."""
    path = _write(project / "part.yaml", "bundle: {name: part}\nhooks: [{module: hooks-logging}]\n")
    code, found = _validated(run, "part.yaml")
    assert code == 1
    assert len(found["errors"]) == 3
    assert all(error.startswith(f"{path}:") for error in found["errors"])
    assert _validated(run, "part.yaml", "--part")[0] == 0


def test_missing_files_are_faults_with_lines(run: Run, project: Path) -> None:
    """Context files and agents that do not exist are errors at the line that names them."""
    path = _write(
        project / "a.yaml", "bundle: {name: a}\nincludes: [minimal]\ncontext:\n  include:\n    - nowhere.md\n"
    )
    code, found = _validated(run, "a.yaml")
    assert code == 1
    assert any(text.startswith(f"{path}:5: ") and "nowhere.md" in text for text in found["errors"] + found["warnings"])
    path = _write(project / "b.yaml", "bundle: {name: b}\nincludes: [minimal]\nagents:\n  include: [nobody]\n")
    code, found = _validated(run, "b.yaml")
    assert code == 1
    assert found["errors"][0].startswith(f"{path}:4: ")


def test_fault_of_an_included_file_is_found(run: Run, project: Path) -> None:
    """What a bundle includes is checked too."""
    _write(project / "bundle.yaml", "bundle: {name: x}\nincludes: [minimal, ./behaviors/bad]\n")
    bad = _write(project / "behaviors" / "bad.yaml", "bundle: {name: bad}\nhoks: []\n")
    code, found = _validated(run, ".")
    assert code == 1
    assert found["errors"][0].startswith(f"{bad}:2: ")


def test_settings_do_not_make_a_bundle_valid(run: Run, project: Path, home: Path) -> None:
    """A provider of the user's settings is not one of the bundle."""
    _write(home / "settings.yaml", "config: {providers: [{module: provider-mock}]}\n")
    _write(project / "x.yaml", "bundle: {name: x}\nsession: {orchestrator: loop-basic, context: context-simple}\n")
    code, found = _validated(run, "x.yaml")
    assert code == 1
    assert "provider" in found["errors"][0]


def test_missing_path_is_a_fault(run: Run) -> None:
    """A path that leads nowhere is no bundle at all."""
    result = run("validate", "nothing.yaml", "--json")
    assert (result.exit_code, json.loads(result.stdout)["code"]) == (2, "bundle_not_found")
