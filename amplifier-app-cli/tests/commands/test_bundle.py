"""`amplifier bundle`: lists, names and choices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.bundle import bundle
from amplifier_foundation.paths import Home
from amplifier_foundation.trust.store import TrustStore

Run = Callable[..., Result]

_BUNDLE = "bundle: {{name: {name}, version: 2.1.0, description: This is {name}.}}\nincludes: [minimal]\n"


@pytest.fixture
def home(environment: dict[str, str]) -> Home:
    """Return the user's home."""
    return Home(Path(environment["HOME"]) / ".amplifier")


@pytest.fixture
def run(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `amplifier bundle` in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return lambda *arguments: CliRunner().invoke(bundle, list(arguments))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _rows(run: Run, *more: str) -> dict[str, dict[str, Any]]:
    result = run("list", "--format", "json", *more)
    assert result.exit_code == 0, result.stderr
    return {row["name"]: row for row in json.loads(result.stdout)}


@pytest.fixture
def everywhere(project: Path, home: Home, tmp_path: Path) -> None:
    """Put bundles in every place that a name can come from."""
    _write(project / ".amplifier" / "bundles" / "ours" / "bundle.yaml", _BUNDLE.format(name="ours"))
    _write(project / ".amplifier" / "bundles" / "two words.yaml", _BUNDLE.format(name="words"))
    _write(home.bundles / "mine.yaml", _BUNDLE.format(name="mine"))
    _write(home.bundles / "dotted.md" / "bundle.yaml", _BUNDLE.format(name="dotted"))
    added = _write(tmp_path / "elsewhere" / "added.yaml", _BUNDLE.format(name="added"))
    recorded = _write(tmp_path / "elsewhere" / "recorded.yaml", _BUNDLE.format(name="recorded"))
    every = _write(tmp_path / "elsewhere" / "every.yaml", "bundle: {name: every}\n")
    _write(home.settings, f"bundle: {{active: {project}/own.yaml, app: [{every}], added: {{given: {added}}}}}\n")
    _write(project / "own.yaml", _BUNDLE.format(name="own"))
    _write(
        home.registry,
        json.dumps(
            {"version": 1, "bundles": {"recorded": {"uri": str(recorded), "name": "recorded", "is_root": True}}}
        ),
    )


def test_fresh_machine_has_the_shipped_bundles(run: Run) -> None:
    """Without any file of the user the shipped bundles are listed, and the default is the one that runs."""
    rows = _rows(run)
    assert {name: row["origin"] for name, row in rows.items()} == dict.fromkeys(
        ("anchors", "default", "demo", "foundation", "minimal", "parallax"), "product"
    )
    assert [name for name, row in rows.items() if row["active"]] == ["default"]
    assert rows["minimal"]["version"] == "3.0.0"


@pytest.mark.usefixtures("everywhere")
def test_list_names_every_origin(run: Run, project: Path) -> None:
    """Bundles of the project, the user, the settings, the registry and the product are listed with their version."""
    rows = _rows(run)
    origins = {"ours": "project", "two words": "project", "mine": "user", "given": "settings", "recorded": "registry"}
    assert {name: rows[name]["origin"] for name in origins} == origins
    assert rows["mine"]["version"] == "2.1.0"
    assert rows["mine"]["description"] == "This is mine."
    assert [name for name, row in rows.items() if row["active"]] == [str(project / "own.yaml")]
    assert [Path(name).name for name, row in rows.items() if row["app"]] == ["every.yaml"]


@pytest.mark.usefixtures("everywhere")
def test_every_listed_bundle_can_be_shown(run: Run) -> None:
    """`bundle show` takes every name that `bundle list` prints, also one that no reference could be."""
    for name in _rows(run, "--all"):
        result = run("show", name, "--format", "json")
        assert result.exit_code == 0, (name, result.stderr)
        shown = json.loads(result.stdout)
        assert shown["plan"] is not None
        assert run("show", name).stdout.startswith("name"), name


def test_included_bundles_are_listed_on_demand(run: Run, home: Home, tmp_path: Path) -> None:
    """A bundle that the registry knows only as a part of another is listed with --all."""
    part = _write(tmp_path / "part.yaml", "bundle: {name: part}\n")
    entry = {"uri": str(part), "name": "part", "is_root": False, "explicitly_requested": False}
    _write(home.registry, json.dumps({"version": 1, "bundles": {"part": entry}}))
    assert "part" not in _rows(run)
    assert "part" in _rows(run, "--all")


def test_broken_bundle_is_listed_with_its_fault(run: Run, home: Home) -> None:
    """A bundle that cannot be read does not hide the others, and showing it names file and line."""
    path = _write(home.bundles / "broken.yaml", "bundle: {name: broken\n")
    row = _rows(run)["broken"]
    assert row["version"] is None
    assert str(path) in row["problem"]
    result = run("show", "broken")
    assert result.exit_code == 1
    assert f"{path}:" in result.stderr


def test_unreadable_registry_is_reported(run: Run, home: Home) -> None:
    """A registry that is not JSON is reported, and the list is printed."""
    _write(home.registry, "{")
    result = run("list")
    assert result.exit_code == 0
    assert "registry" in result.stderr
    assert run("remove", "nothing").exit_code == 2
    assert home.registry.read_text(encoding="utf-8") == "{"


def test_address_that_was_never_fetched_is_not_fetched_by_list(run: Run, home: Home) -> None:
    """Listing uses no network: what is not here says so."""
    _write(home.settings, "bundle: {added: {far: 'git+https://localhost:1/x/y@main'}}\n")
    assert _rows(run)["far"]["problem"] == "not fetched yet"


def test_text_of_a_bundle_cannot_steer_the_terminal(run: Run, home: Home) -> None:
    """Escapes in a description are not printed."""
    _write(home.bundles / "evil.yaml", 'bundle: {name: evil, description: "\\e[2Jgone"}\n')
    for command in (("list",), ("show", "evil"), ("explain", "evil")):
        assert "\x1b" not in run(*command).stdout


@pytest.mark.parametrize(
    ("flags", "scope"), [((), "user"), (("--project",), "project"), (("--scope", "local"), "local")]
)
def test_use_writes_the_scope_that_is_named(
    run: Run, project: Path, home: Home, flags: tuple[str, ...], scope: str
) -> None:
    """The choice is written to the user's settings, or to those of the scope that a flag names."""
    assert run("use", "minimal", *flags).exit_code == 0
    folder = project / ".amplifier"
    files = {"user": home.settings, "project": folder / "settings.yaml", "local": folder / "settings.local.yaml"}
    assert {name for name, file in files.items() if file.exists()} == {scope}
    current = json.loads(run("current", "--format", "json").stdout)
    assert (current["name"], current["chosen_by"]) == ("minimal", scope)
    assert current["where"].startswith(f"{files[scope]}:")


def test_two_scopes_are_refused(run: Run, home: Home) -> None:
    """A choice for two scopes at once is a mistake of usage, and nothing is written."""
    assert run("use", "minimal", "--project", "--local").exit_code == 2
    assert not home.settings.exists()


def test_use_refuses_what_cannot_be_composed(run: Run, project: Path, home: Home) -> None:
    """An unknown name and a broken file are not chosen; the name gets a hint."""
    result = run("use", "minmal")
    assert result.exit_code == 2
    assert "did you mean 'minimal'?" in result.stderr
    _write(project / "bad.yaml", "bundel: {name: bad}\n")
    assert run("use", "./bad.yaml").exit_code == 1
    assert not home.settings.exists()


def test_chosen_path_means_the_same_everywhere(run: Run, project: Path, home: Home) -> None:
    """A path is absolute in the user's settings, and relative to the project in the project's own."""
    own = _write(project / "bundles" / "own.yaml", _BUNDLE.format(name="own"))
    assert run("use", "bundles/own.yaml").exit_code == 0
    assert str(own) in home.settings.read_text(encoding="utf-8")
    assert run("use", "./bundles/own.yaml", "--project").exit_code == 0
    assert "./bundles/own.yaml" in (project / ".amplifier" / "settings.yaml").read_text(encoding="utf-8")
    assert json.loads(run("current", "--format", "json").stdout)["name"] == "own"


def test_use_says_when_another_scope_counts_more(run: Run, project: Path) -> None:
    """A choice that has no effect here says which line does."""
    run("use", "minimal", "--project")
    result = run("use", "demo")
    assert result.exit_code == 0
    assert f"{project / '.amplifier' / 'settings.yaml'}:" in result.stderr


def test_trusted_project_stays_trusted(run: Run, project: Path, home: Home) -> None:
    """Editing a project's settings on the user's word does not end its trust; other changes still do."""
    _write(project / ".amplifier" / "settings.yaml", "# ours\n")
    store = TrustStore(home)
    store.trust(project)
    assert run("use", "minimal", "--project").exit_code == 0
    assert store.state(project).trusted
    _write(project / ".amplifier" / "bundles" / "new.yaml", _BUNDLE.format(name="new"))
    assert run("use", "demo", "--project").exit_code == 0
    assert store.state(project).state == "changed"


def test_clear_takes_the_choice_back(run: Run, project: Path, home: Home) -> None:
    """`clear` empties one scope, `--all` every one; where nothing is chosen, it says who chooses."""
    run("use", "minimal")
    run("use", "demo", "--project")
    assert run("clear").exit_code == 0
    assert json.loads(run("current", "--format", "json").stdout)["name"] == "demo"
    result = run("clear")
    assert result.exit_code == 0
    assert "--scope project" in result.stderr
    run("use", "minimal")
    assert run("clear", "--all").exit_code == 0
    assert json.loads(run("current", "--format", "json").stdout)["chosen_by"] == "product"
    assert run("clear", "--all", "--project").exit_code == 2


def test_add_gives_a_name(run: Run, tmp_path: Path) -> None:
    """An added bundle is known by the name that is given, else by its own."""
    path = _write(tmp_path / "far" / "thing.yaml", _BUNDLE.format(name="thing"))
    assert run("add", str(path), "-n", "called").exit_code == 0
    assert run("add", str(path)).exit_code == 0
    rows = _rows(run)
    assert rows["called"]["file"] == rows["thing"]["file"] == str(path)
    assert run("use", "called").exit_code == 0


@pytest.mark.parametrize("name", ["a b", "x:y", "../up", "file.md", ""])
def test_add_refuses_what_is_no_name(run: Run, tmp_path: Path, name: str) -> None:
    """A name that would be read as a path or an address is refused."""
    path = _write(tmp_path / "thing.yaml", _BUNDLE.format(name="thing"))
    assert run("add", str(path), "-n", name).exit_code == 2


def test_add_refuses_what_is_no_bundle(run: Run, tmp_path: Path, home: Home) -> None:
    """Only what can be composed gets a name."""
    result = run("add", str(tmp_path / "nothing"), "-n", "thing")
    assert result.exit_code == 2
    assert not home.settings.exists()


def test_app_bundle_is_part_of_every_session(run: Run, project: Path) -> None:
    """With --app the bundle is composed into every other one, until it is removed by its name."""
    _write(project / "extra.yaml", "bundle: {name: extra}\nsession: {metadata: {extra: yes}}\n")
    assert run("add", "./extra.yaml", "--app", "--project").exit_code == 0
    assert json.loads(run("show", "minimal", "--format", "json").stdout)["plan"]["session"]["metadata"] == {
        "extra": True
    }
    assert _rows(run)["extra"]["app"]
    assert run("remove", "extra", "--app").exit_code == 2
    assert run("remove", "extra", "--app", "--project").exit_code == 0
    assert not _rows(run)["extra"]["app"]
    assert "metadata" not in json.loads(run("show", "minimal", "--format", "json").stdout)["plan"]["session"]


@pytest.mark.usefixtures("everywhere")
def test_remove_forgets_names_and_never_files(run: Run, home: Home) -> None:
    """Added and recorded names are forgotten; a name that is a file, shipped or unknown is an error that says so."""
    assert run("remove", "given").exit_code == 0
    assert run("remove", "recorded").exit_code == 0
    assert not {"given", "recorded"} & _rows(run).keys()
    for name, said in (
        ("mine", str(home.bundles / "mine.yaml")),
        ("minimal", "comes with the program"),
        ("gvn", "gvn"),
    ):
        result = run("remove", name)
        assert result.exit_code == 2, name
        assert said in result.stderr


def test_removed_bundle_that_is_still_chosen_is_reported(run: Run, tmp_path: Path) -> None:
    """Removing the bundle that runs says which file still chooses it."""
    path = _write(tmp_path / "thing.yaml", _BUNDLE.format(name="thing"))
    run("add", str(path))
    run("use", "thing")
    assert "still chooses thing" in run("remove", "thing").stderr


def test_errors_are_json_too(run: Run) -> None:
    """A program that reads JSON gets the error as JSON."""
    result = run("show", "nothing", "--format", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["code"] == "bundle_not_found"
