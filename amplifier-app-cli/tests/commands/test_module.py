"""`amplifier module`: what is installed, what the plan uses, what settings add; and checks of a module's folder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.module import module

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Run = Callable[..., Result]

_TOOL = """\
from amplifier_core import ToolResult

print("noise of the module")


class Census:
    name = "census"
    description = "Count."
    input_schema = {}

    async def execute(self, input):
        return ToolResult(output=1)


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Census(), name="census")
"""


@pytest.fixture
def run(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `amplifier module` in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return lambda *arguments: CliRunner().invoke(module, list(arguments))


@pytest.fixture
def census(project: Path) -> Path:
    """Return the folder of a tool module in the project."""
    package = project / "modules" / "tool-census" / "amplifier_module_tool_census"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_TOOL, encoding="utf-8")
    return package.parent


def _listed(run: Run, *arguments: str) -> dict[str, dict[str, Any]]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return {one["id"]: one for one in json.loads(result.stdout)}


def test_list_has_installed_modules_and_those_of_the_plan(run: Run, census: Path) -> None:
    """Installed modules are listed with their package, modules of the plan with the line that names them."""
    assert run("add", "tool-census", "-s", str(census), "--project").exit_code == 0
    rows = _listed(run, "list")
    assert rows["loop-basic"]["installed"]["package"] == "amplifier-module-loop-basic"
    assert rows["loop-basic"]["plan"] == []
    assert rows["loop-streaming"]["plan"][0]["section"] == "session"
    assert rows["tool-census"]["installed"] is None
    (place,) = rows["tool-census"]["plan"]
    assert place["source"] == str(census)
    assert Path(place["where"].rpartition(":")[0]).name == "settings.yaml"
    assert "tool-census" in run("list").stdout


def test_list_by_type(run: Run) -> None:
    """-t leaves out all others; a type there is not is a mistake of usage."""
    assert {one["type"] for one in _listed(run, "list", "-t", "hook").values()} == {"hook"}
    assert run("list", "-t", "nothing").exit_code == 2


def test_broken_bundle_does_not_hide_what_is_installed(run: Run, project: Path) -> None:
    """`list` works and says what is wrong; `current` is about the plan and fails."""
    (project / ".amplifier").mkdir()
    (project / ".amplifier" / "settings.yaml").write_text("bundle: {active: nothing}\n", encoding="utf-8")
    result = run("list")
    assert result.exit_code == 0
    assert "loop-basic" in result.stdout
    assert "nothing" in result.stderr
    assert run("current").exit_code == 2


def test_current_has_the_plan_alone(run: Run) -> None:
    """Only what runs here is listed."""
    assert set(_listed(run, "current")) >= {"loop-streaming", "context-simple", "provider-mock"}
    assert "loop-basic" not in _listed(run, "current")


def test_show_masks_secrets(run: Run, environment: dict[str, str]) -> None:
    """The configuration is shown without what is secret."""
    home = Path(environment["HOME"]) / ".amplifier"
    home.mkdir()
    (home / "settings.yaml").write_text(
        "config: {providers: [{module: provider-mock, config: {api_key: hunter22-and-more}}]}\n", encoding="utf-8"
    )
    for form in ("text", "json"):
        result = run("show", "provider-mock", "--format", form)
        assert result.exit_code == 0
        assert "api_key" in result.stdout
        assert "hunter22" not in result.output


def test_show_lists_the_config_keys(run: Run) -> None:
    """Every key has its kind, default and meaning; JSON has the schema."""
    text = run("show", "loop-basic").stdout
    assert "\n  max_iterations: a positive whole number, or -1 for no limit (default 100). Model calls in one" in text
    schema = json.loads(run("show", "loop-basic", "--format", "json").stdout)["config_schema"]
    assert schema["properties"]["extended_thinking"]["type"] == "boolean"


def test_unknown_module_gets_a_hint(run: Run) -> None:
    """A slip is an error with the nearest id."""
    result = run("show", "provider-mok")
    assert result.exit_code == 2
    assert "did you mean 'provider-mock'?" in result.stderr


def test_added_module_is_in_the_plan_until_it_is_removed(run: Run) -> None:
    """An installed module needs no source; adding it twice adds it once."""
    assert run("add", "hooks-streaming-ui").exit_code == 0
    assert "already" in run("add", "hooks-streaming-ui").stderr
    assert len(_listed(run, "current")["hooks-streaming-ui"]["plan"]) == 1
    assert "--scope user" in run("remove", "hooks-streaming-ui", "--project").stderr
    assert run("remove", "hooks-streaming-ui").exit_code == 0
    assert "hooks-streaming-ui" not in _listed(run, "current")
    assert run("remove", "hooks-streaming-ui").exit_code == 2


def test_added_source_replaces_the_earlier_one(run: Run, census: Path, project: Path) -> None:
    """Adding a module again with another source changes the source, and its configuration stays."""
    run("add", "tool-census", "-s", "./modules/tool-census", "--project")
    settings = project / ".amplifier" / "settings.yaml"
    assert "./modules/tool-census" in settings.read_text(encoding="utf-8")
    settings.write_text(settings.read_text(encoding="utf-8") + "      config: {depth: 2}\n", encoding="utf-8")
    assert run("add", "tool-census", "-s", "git+https://localhost/x@main", "--project").exit_code == 0
    (place,) = _listed(run, "list")["tool-census"]["plan"]
    assert (place["source"], place["config"]) == ("git+https://localhost/x@main", {"depth": 2})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tool-nothing",), "--source"),
        (("loop-basic",), "bundle"),
        (("thing", "-s", "./x"), "--type"),
    ],
)
def test_what_cannot_be_added_says_why(run: Run, arguments: tuple[str, ...], said: str) -> None:
    """A module that nothing brings, one that bundles choose, and one of unknown type are mistakes of usage."""
    result = run("add", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_validate_passes_a_good_module(amplifier: Amplifier, census: Path) -> None:
    """The folder, the package and a file are found; what the module prints is not in the result."""
    for place in (census, census / "amplifier_module_tool_census"):
        result = amplifier("module", "validate", str(place), "-o", "json")
        assert result.returncode == 0, result.stderr
        record = json.loads(result.stdout)
        assert record["passed"]
        assert record["type"] == "tool"
    assert "PASSED" in amplifier("module", "validate", str(census)).stdout


def test_validate_fails_a_bad_module(amplifier: Amplifier, census: Path) -> None:
    """A module that breaks its contract ends with 1 and the failed check; -v shows the passed ones too."""
    package = census / "amplifier_module_tool_census" / "__init__.py"
    package.write_text("def mount(coordinator):\n    pass\n", encoding="utf-8")
    result = amplifier("module", "validate", str(census))
    assert result.returncode == 1
    assert "mount_signature" in result.stdout
    assert "mount_exists" not in result.stdout
    assert "mount_exists" in amplifier("module", "validate", str(census), "-v").stdout


def test_validate_survives_a_module_that_ends_the_program(amplifier: Amplifier, census: Path) -> None:
    """`sys.exit(0)` in a module is a failure, not a pass."""
    (census / "amplifier_module_tool_census" / "__init__.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    result = amplifier("module", "validate", str(census))
    assert result.returncode == 1
    assert "sys.exit" in result.stderr


def test_validate_runs_the_tests_of_the_type(amplifier: Amplifier, census: Path) -> None:
    """-b runs the behavioral tests, whose failure fails the module."""
    result = amplifier("module", "validate", str(census), "-b", "-o", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["behavioral"] == "passed"
    package = census / "amplifier_module_tool_census" / "__init__.py"
    package.write_text(_TOOL.replace("return ToolResult(output=1)", "return 1"), encoding="utf-8")
    result = amplifier("module", "validate", str(census), "-b", "-o", "json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["behavioral"] == "failed"


def test_validate_follows_no_settings_of_the_project(
    amplifier: Amplifier, project: Path, census: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """The behavioral tests are run by their own settings: no conftest.py, plugin or option of the project counts."""
    trap = f"open({str(tmp_path / 'planted')!r}, 'w').close()\n"
    # Where temporary folders are may be in the project, too.
    temporary = project / "tmp"
    temporary.mkdir()
    environment["TMPDIR"] = str(temporary)
    environment["PYTEST_ADDOPTS"] = "-p evil"
    environment["PYTHONPATH"] = str(project)
    for folder in (project, temporary, census):
        for name in ("conftest.py", "evil.py", "pytest_asyncio.py", "sitecustomize.py"):
            (folder / name).write_text(trap, encoding="utf-8")
        for name in ("pytest.ini", "tox.ini"):
            (folder / name).write_text("[pytest]\naddopts = -p evil\n", encoding="utf-8")
    (project / "sitecustomize.py").unlink()  # the program itself would obey this variable
    (project / "pytest_asyncio.py").unlink()
    result = amplifier("module", "validate", str(census), "-b", "-o", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["behavioral"] == "passed"
    assert not (tmp_path / "planted").exists()


def test_validate_needs_one_package(amplifier: Amplifier, project: Path, census: Path) -> None:
    """A folder without a package, and a name that says no type, are mistakes of usage."""
    assert amplifier("module", "validate", str(project)).returncode == 2
    strange = project / "strange.py"
    strange.write_text(_TOOL, encoding="utf-8")
    assert "--type" in amplifier("module", "validate", str(strange)).stderr
    assert amplifier("module", "validate", str(strange), "-t", "tool").returncode == 0
