"""`amplifier trust`: seen first, then trusted, and not any longer when a file changes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.trust import trust
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.store import TrustStore

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_BUNDLE = """\
bundle: {name: mine}
includes: [minimal, ./parts/deep]
tools:
  - module: tool-mine
    source: ./tool-mine
"""
_FAR = "{module: provider-vllm, config: {base_url: 'http://127.0.0.1:1', priority: 500}}"
_DEEP = f"bundle: {{name: deep}}\nproviders: [{{module: provider-mock}}, {_FAR}]\n"
_MODULE = """\
class Mine:
    name = "mine"
    description = "Do nothing."
    input_schema = {"type": "object", "properties": {}}
    async def execute(self, input):
        raise NotImplementedError
async def mount(coordinator, config=None):
    await coordinator.mount("tools", Mine(), name="mine")
"""


@pytest.fixture
def named(project: Path) -> Path:
    """Return a project whose bundle names one of its modules and, in an included file, a server."""
    (project / "bundle.yaml").write_text(_BUNDLE)
    (project / "parts").mkdir()
    (project / "parts/deep.yaml").write_text(_DEEP)
    package = project / "tool-mine/amplifier_module_tool_mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_MODULE)
    return project


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home of the program."""
    path = tmp_path / "amplifier"
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command in the project."""
    monkeypatch.chdir(project)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(trust, list(arguments), obj=App(), catch_exceptions=False)

    return invoke


def test_from_refused_to_trusted(amplifier: Amplifier, named: Path) -> None:
    """What a run refuses, `trust` shows with its line; after it the run starts, until a file changes."""
    refused = amplifier("run", "hello", "--bundle", ".")
    assert refused.returncode == 6
    shown = amplifier("trust", "--yes")
    assert shown.returncode == 0, shown.stderr
    assert f"{named}/bundle.yaml:5: tools: module 'tool-mine'" in shown.stderr
    assert f"{named}/parts/deep.yaml:2" in shown.stderr
    assert amplifier("run", "hello", "--bundle", ".").returncode == 0
    (named / "parts/deep.yaml").write_text(_DEEP + "# changed\n")
    again = amplifier("run", "hello", "--bundle", ".")
    assert again.returncode == 6
    assert "parts/deep.yaml changed" in again.stderr


def test_without_a_terminal(run: Run, named: Path, home: Path) -> None:
    """Without a terminal and without --yes all is shown, also to programs, and nothing is trusted."""
    result = run("--format", "json")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    record = json.loads(result.stdout)
    assert record["state"] == "unknown"
    code = "tool-mine/amplifier_module_tool_mine/__init__.py"
    assert record["files"] == ["bundle.yaml", "parts/deep.yaml", code]
    assert {name["where"].rpartition("/")[2] for name in record["names"]} == {"bundle.yaml:5", "deep.yaml:2"}
    assert not TrustStore(Home(home)).list()


def test_asks_at_a_terminal(at_terminal: Callable[..., Any], named: Path, environment: dict[str, str]) -> None:
    """At a terminal it is asked, and a no is a no."""
    home = Home(Path(environment["HOME"]) / ".amplifier")
    for answer, code, trusted in (("n", 1, False), ("y", 0, True)):
        child = at_terminal("trust")
        child.expect("Trust it")
        assert "tool-mine" in child.before
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == code
        assert TrustStore(home).state(named).trusted is trusted


def test_list_and_revoke(run: Run, named: Path) -> None:
    """Trusted projects are listed with their state, by path; a revoked one is gone, and twice is a failure."""
    assert "amplifier trust" in run("--list").stderr
    assert run("--yes").exit_code == 0
    (record,) = json.loads(run("--list", "--format", "json").stdout)
    assert (record["folder"], record["state"]) == (str(named), "trusted")
    (named / "bundle.yaml").write_text(_BUNDLE + "# more\n")
    (record,) = json.loads(run("--list", "--format", "json").stdout)
    assert (record["state"], record["changed"]) == ("changed", ["bundle.yaml"])
    assert str(named) in run("--list").stdout
    assert run("--revoke").exit_code == 0
    assert run("--revoke").exit_code == 2
    assert run("--revoke", "--list").exit_code == 2


def test_again(run: Run, named: Path) -> None:
    """Trusting what is trusted says so; after a change it names what changed."""
    run("--yes")
    assert "already" in run().stderr
    (named / "bundle.yaml").write_text(_BUNDLE + "# more\n")
    result = run("--yes")
    assert result.exit_code == 0
    assert "since then these changed: bundle.yaml" in result.stderr


def test_another_folder(run: Run, named: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path names the project, relative to where the program runs; one that is not a folder is an error."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run("../project", "--yes").exit_code == 0
    assert [record.path for record in TrustStore(Home(home)).list()] == [named]
    missing = run("nowhere", "--yes")
    assert missing.exit_code == 2
    assert "not a folder" in missing.stderr


def test_bundles_of_the_project_are_looked_at(run: Run, project: Path) -> None:
    """Bundles in the project's own folder of bundles are shown too, and one that is named with --bundle."""
    own = project / ".amplifier/bundles"
    own.mkdir(parents=True)
    source = "tools: [{module: tool-a, source: ./tool-a}]"
    (own / "a.yaml").write_text(f"bundle: {{name: a}}\n{source}\n")
    (own / "tool-a").mkdir()
    (project / "odd").mkdir()
    (project / "odd/b.yaml").write_text(f"bundle: {{name: b}}\n{source}\n")
    (project / "odd/tool-a").mkdir()
    record = json.loads(run("--format", "json").stdout)
    assert [name["where"] for name in record["names"]] == [f"{own}/a.yaml:2"]
    record = json.loads(run("--bundle", "odd/b.yaml", "--format", "json").stdout)
    assert f"{project}/odd/b.yaml:2" in [name["where"] for name in record["names"]]
    assert "odd/b.yaml" in record["files"]


def test_sources_elsewhere_are_shown(run: Run, project: Path, tmp_path: Path) -> None:
    """What a bundle of the project names from elsewhere runs on the project's word, so it is shown."""
    own = project / ".amplifier/bundles"
    own.mkdir(parents=True)
    (own / "x.yaml").write_text(f"bundle: {{name: x}}\ntools: [{{module: tool-x, source: {tmp_path}/x}}]\n")
    (name,) = json.loads(run("--format", "json").stdout)["names"]
    assert f"{tmp_path}/x" in name["what"]


def test_file_that_comes_into_view_later(run: Run, named: Path) -> None:
    """A trusted project is asked about again when a bundle is named whose files were not seen."""
    run("--yes")
    (named / "odd.yaml").write_text("bundle: {name: odd}\nincludes: [minimal]\n")
    result = run("--bundle", "odd.yaml")
    assert result.exit_code == 2
    assert "odd.yaml" in result.stderr
    assert run("--bundle", "odd.yaml", "--yes").exit_code == 0
    assert "already" in run("--bundle", "odd.yaml").stderr


def test_change_while_the_user_decides(run: Run, named: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is trusted is what was shown: a file that changes in between ends it at once."""
    before = TrustStore.trust

    def slow(self: TrustStore, folder: Path, files: object = ()) -> object:
        (named / "bundle.yaml").write_text(_BUNDLE + "# sneaked in\n")
        return before(self, folder, files)  # type: ignore[arg-type]

    monkeypatch.setattr(TrustStore, "trust", slow)
    result = run("--yes")
    assert result.exit_code == 1
    assert "changed while" in result.stderr
    assert not TrustStore(Home(home)).list()


def test_bundle_that_cannot_be_composed(run: Run, named: Path) -> None:
    """A bundle that is broken is said, and does not hide what the others name."""
    own = named / ".amplifier/bundles"
    own.mkdir(parents=True)
    (own / "broken.yaml").write_text("bundle: {\n")
    record = json.loads(run("--format", "json").stdout)
    assert any("broken.yaml:2" in problem for problem in record["problems"])
    assert len(record["names"]) == 2
    asked = run("--bundle", "nothing", "--yes", "--json")
    assert (asked.exit_code, json.loads(asked.stdout)["code"]) == (2, "bundle_not_found")


def test_project_that_names_nothing(run: Run, project: Path) -> None:
    """An empty project can be trusted; it is said that it names nothing."""
    result = run("--yes")
    assert result.exit_code == 0
    assert "names nothing that needs trust" in result.stderr


def test_the_code_of_a_module_that_changed(run: Run, named: Path) -> None:
    """Trust is over when the code changes that it was for, and the file is named when it is to be given again."""
    assert run("--yes").exit_code == 0
    assert json.loads(run("--list", "--format", "json").stdout)[0]["state"] == "trusted"
    (named / "tool-mine" / "amplifier_module_tool_mine" / "planted.py").write_text("x = 1\n", encoding="utf-8")
    assert json.loads(run("--list", "--format", "json").stdout)[0]["state"] == "changed"
    result = run("--yes")
    assert "since then these changed: tool-mine/amplifier_module_tool_mine/planted.py" in result.stderr
    assert json.loads(run("--list", "--format", "json").stdout)[0]["state"] == "trusted"
