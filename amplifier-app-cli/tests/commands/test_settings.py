"""`amplifier settings`: keys, values, scopes and where secrets go."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.settings import key_parts, parse_value, settings
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.scopes import SettingsError
from amplifier_foundation.trust.store import TrustStore

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home of the program."""
    path = tmp_path / "amplifier home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a settings command in the project."""
    monkeypatch.chdir(project)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(settings, list(arguments), obj=App(), catch_exceptions=False)

    return invoke


def test_set_get_unset(run: Run, home: Path) -> None:
    """What was set is printed, alone, on standard output, and gone after unset; the file is the user's."""
    done = run("set", "bundle.active", "minimal")
    assert (done.exit_code, done.stdout) == (0, "")
    assert str(home / "settings.yaml") in done.stderr
    assert run("get", "bundle.active").stdout == "minimal\n"
    assert run("unset", "bundle.active").exit_code == 0
    gone = run("get", "bundle.active")
    assert (gone.exit_code, gone.stdout) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("--scope", "user"), "home"),
        (("--scope", "global"), "home"),
        (("--global",), "home"),
        (("--scope", "project"), "settings.yaml"),
        (("--project",), "settings.yaml"),
        (("--scope", "local"), "settings.local.yaml"),
        (("--local",), "settings.local.yaml"),
        ((), "home"),
    ],
)
def test_scopes(run: Run, home: Path, project: Path, arguments: tuple[str, ...], file: str) -> None:
    """Every spelling of a scope leads to its file, and to no other."""
    assert run("set", "bundle.active", "minimal", *arguments).exit_code == 0
    expected = home / "settings.yaml" if file == "home" else project / ".amplifier" / file
    written = [path for path in (home / "settings.yaml", *project.glob(".amplifier/*.yaml")) if path.exists()]
    assert written == [expected]


def test_stronger_scopes_win_and_are_explained(run: Run, project: Path) -> None:
    """`get` gives the strongest value or that of one scope; `explain` names file, line and what was overruled."""
    run("set", "bundle.active", "minimal")
    run("set", "bundle.active", "demo", "--local")
    assert run("get", "bundle.active").stdout == "demo\n"
    assert run("get", "bundle.active", "--scope", "user").stdout == "minimal\n"
    told = run("explain", "bundle.active").stdout
    assert f"{project}/.amplifier/settings.local.yaml:2" in told
    assert "instead of minimal (user:" in told
    (record,) = json.loads(run("explain", "bundle", "--format", "json").stdout)
    assert (record["key"], record["value"], record["scope"]) == ("bundle.active", "demo", "local")
    assert [lost["scope"] for lost in record["lost"]] == ["user"]


def test_settings_of_one_session(amplifier: Amplifier, environment: dict[str, str]) -> None:
    """A session has its settings, found by the beginning of its id; without a session the scope has no file."""
    assert amplifier("run", "hello").returncode == 0
    (folder,) = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*")
    start = folder.name[:8]
    assert amplifier("settings", "set", "bundle.active", "minimal", "--session", start).returncode == 0
    assert (folder / "settings.yaml").exists()
    assert amplifier("settings", "get", "bundle.active", "--session", start).stdout == "minimal\n"
    assert amplifier("settings", "get", "bundle.active").returncode == 2
    assert amplifier("settings", "set", "bundle.active", "x", "--scope", "session").returncode == 2
    assert amplifier("settings", "set", "bundle.active", "x", "--session", "none-such").returncode == 2


def test_two_scopes_at_once(run: Run) -> None:
    """Two different scopes are a usage error; the same one twice is not."""
    assert run("set", "bundle.active", "x", "--local", "--project").exit_code == 2
    assert run("set", "bundle.active", "minimal", "--global", "--scope", "user").exit_code == 0


def test_secret_goes_to_the_key_store(run: Run, home: Path) -> None:
    """A secret in clear is kept in keys.env, readable by its owner alone; that is said, and it is never printed."""
    secret = "sk-abcdefghijklmnopqrstuvwx123456"
    key = "config.providers.provider-openai.config.api_key"
    done = run("set", key, secret)
    assert done.exit_code == 0
    assert "OPENAI_API_KEY" in done.stderr
    assert secret not in done.output
    assert secret not in (home / "settings.yaml").read_text()
    assert secret in (home / "keys.env").read_text()
    assert stat.S_IMODE((home / "keys.env").stat().st_mode) == 0o600
    assert run("get", key).stdout == "${OPENAI_API_KEY}\n"


def test_secret_that_stands_in_a_file_is_masked(run: Run, home: Path) -> None:
    """A secret that was written into the file by hand is shown by no command."""
    secret = "sk-abcdefghijklmnopqrstuvwx123456"
    home.mkdir()
    (home / "settings.yaml").write_text(
        f"config: {{providers: [{{module: provider-openai, config: {{api_key: {secret}}}}}]}}\n"
    )
    for arguments in (("get", "config"), ("list",), ("explain",), ("get", "config", "--format", "json")):
        result = run(*arguments)
        assert result.exit_code == 0
        assert secret not in result.output


def test_list(run: Run) -> None:
    """`list` has every setting and its scope, and says what to do when nothing is set."""
    empty = run("list")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "amplifier settings set" in empty.stderr
    assert json.loads(run("list", "--format", "json").stdout) == []
    run("set", "bundle.active", "minimal")
    run("set", "bundle.active", "demo", "--project")
    assert [row.split() for row in run("list").stdout.splitlines()[1:]] == [["bundle.active", "demo", "project"]]
    (record,) = json.loads(run("list", "--scope", "user", "--format", "json").stdout)
    assert record["value"] == "minimal"


def test_unknown_keys_get_a_hint(run: Run) -> None:
    """A slip of the pen is an error with the nearest key, when reading and when writing, also for programs."""
    run("set", "bundle.active", "minimal")
    assert "did you mean 'bundle.active'" in run("get", "bundle.actve").stderr
    assert "did you mean 'active'" in run("set", "bundle.actve", "x").stderr
    error = json.loads(run("set", "bundel.active", "x", "--format", "json").stdout)
    assert error["status"] == "error"
    assert error["code"] == "setting_refused"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("bundel.active", "x", "unknown key 'bundel': did you mean 'bundle'?"),
        ("bundle.actve", "x", "unknown key 'actve' in bundle: did you mean 'active'?"),
        ("bundle.active", "5", "'bundle.active' must be text, got a number"),
        ("config.providers.provider-mock.confg.x", "1", "unknown key 'confg'"),
    ],
)
def test_a_setting_that_is_refused_is_named_as_it_was_given(
    run: Run, home: Path, key: str, value: str, problem: str
) -> None:
    """An unknown key or a wrong value is a mistake in usage: the message names the key, and no line of a file."""
    result = run("set", key, value)
    assert result.exit_code == 2
    assert f"amplifier: {key}: {problem}" in result.stderr
    assert "settings.yaml" not in result.stderr
    assert not (home / "settings.yaml").exists()


def test_unset_says_where_it_is_set(run: Run) -> None:
    """Unsetting what is set in another scope changes nothing, and says where it is set."""
    run("set", "bundle.active", "minimal", "--project")
    result = run("unset", "bundle.active")
    assert result.exit_code == 0
    assert "--scope project" in result.stderr
    assert run("get", "bundle.active").stdout == "minimal\n"


def test_broken_file_is_reported_with_its_line(run: Run, home: Path) -> None:
    """A malformed file is an error with its line, and is left as it is."""
    home.mkdir()
    (home / "settings.yaml").write_text("bundle: {\n")
    for arguments in (("list",), ("set", "bundle.active", "x")):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "settings.yaml:2" in result.stderr
    assert (home / "settings.yaml").read_text() == "bundle: {\n"


def test_trusted_project_stays_trusted(run: Run, home: Path, project: Path) -> None:
    """What the user sets through the program ends no trust; what was changed before by someone else is not accepted."""
    store = TrustStore(Home(home))
    run("set", "bundle.active", "minimal", "--project")
    store.trust(project)
    run("set", "bundle.active", "demo", "--project")
    assert store.state(project).trusted
    (project / ".amplifier/settings.yaml").write_text("bundle: {active: other}\n")
    run("set", "bundle.active", "demo", "--project")
    assert store.state(project).changed == (".amplifier/settings.yaml",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("true", True),
        ("True", True),
        ("null", None),
        ('"1"', "1"),
        ("[a, b]", ["a", "b"]),
        ('{"a": [1]}', {"a": [1]}),
        ("{a: 1}", {"a": 1}),
        ("on", "on"),
        ("3.10.1", "3.10.1"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("NaN", "NaN"),
        ("a: b", "a: b"),
        ("@x", "@x"),
        ("", ""),
    ],
)
def test_values(text: str, value: Any) -> None:
    """JSON is JSON, lists and mappings may be YAML, and everything else is the text it looks like."""
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_negative_numbers(run: Run) -> None:
    """A value may start with a minus; a misspelt option is not taken for a value."""
    key = "overrides.loop-streaming.config.max_iterations"
    assert run("set", key, "-1").exit_code == 0
    assert run("get", key).stdout == "-1\n"
    assert run("set", key, "--locl").exit_code == 2
    assert run("set", key, "3", "--locl").exit_code == 2
    assert run("get", key).stdout == "-1\n"


def test_malformed_lists(run: Run) -> None:
    """Half a list is an error, unless it is meant as text."""
    assert run("set", "bundle.app", "[a, b").exit_code == 1
    assert run("set", "bundle.active", "[a", "--string").exit_code == 0
    assert run("get", "bundle.active").stdout == "[a\n"


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_every_json_value_is_itself(value: Any) -> None:
    """What a program writes as JSON arrives as that value."""
    assert parse_value(json.dumps(value)) == value


_PARTS = st.lists(st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), min_size=1), min_size=1)


@given(parts=_PARTS)
def test_quoted_names_round_trip(parts: list[str]) -> None:
    """Any name can be given in quotes, dots in it and all."""
    assert key_parts(".".join(f'"{part}"' for part in parts)) == tuple(parts)


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", 'a."b', 'a."b"c', 'a.""'])
def test_keys_that_are_none(key: str) -> None:
    """A key with an empty name, or with half a quote, is refused."""
    with pytest.raises(SettingsError):
        key_parts(key)
