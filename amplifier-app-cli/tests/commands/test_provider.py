"""`amplifier provider`: what there is, what is configured, and whether it answers."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.provider import provider
from amplifier_app_cli.providers.known import KNOWN, all_key_names
from amplifier_foundation.documents import read_document

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_MODULE = """\
from amplifier_core import ModelInfo, ProviderInfo
from amplifier_module_provider_mock import MockProvider
from amplifier_module_provider_mock.replies import CannedReplies


class Loud(MockProvider):
    name = "loud"

    async def list_models(self):
        print("noise on standard output")
        return await super().list_models()


async def mount(coordinator, config=None):
    print("noise on standard output")
    loud = Loud(dict(config or {}), CannedReplies(["loud and clear"]), coordinator)
    await coordinator.mount("providers", loud, name="loud")
"""


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
    """Return a function that runs a command about providers in the project."""
    monkeypatch.chdir(project)

    def invoke(*arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(provider, list(arguments), input=stdin, obj=App(), catch_exceptions=False)

    return invoke


@pytest.fixture
def loud(project: Path) -> Path:
    """Return the folder of a provider module that prints unrelated text."""
    package = project.parent / "provider-loud/amplifier_module_provider_loud"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_MODULE)
    (package.parent / "pyproject.toml").write_text(
        '[project]\nname = "amplifier-module-provider-loud"\nversion = "1"\n'
    )
    return package.parent


def _records(result: Result) -> dict[str, dict[str, Any]]:
    return {record["id"]: record for record in json.loads(result.stdout)}


def _entries(file: Path) -> Any:
    return read_document(file).data["config"]["providers"]


def test_list(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every known provider is listed with module, key and configuration, and the one that a run would use."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x-4711")
    result = run("list", "--format", "json")
    records = _records(result)
    assert list(records) == [known.id for known in KNOWN]
    assert all(record["installed"] for record in records.values())
    assert records["openai"]["key_found"] == ["OPENAI_API_KEY"]
    assert records["azure-openai"]["key_missing"] == ["AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"]
    assert [record["id"] for record in records.values() if record["used"]] == ["openai"], (result.stderr, records)
    assert records["mock"]["configured"] == [{"name": "provider-mock", "where": "bundle", "model": None}]
    shown = run("list")
    assert "provider: openai (OPENAI_API_KEY is set)" in shown.stderr
    assert "PROVIDER" in shown.stdout.splitlines()[0]
    assert "4711" not in result.output + shown.output


def test_several_keys_are_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several keys the first in the order is used, and the line names the others."""
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-x")
    line = "provider: openai (OPENAI_API_KEY is set; GEMINI_API_KEY is too)"
    assert line in run("list").stderr


def test_list_in_spite_of_a_broken_bundle(run: Run) -> None:
    """When the bundle cannot be composed that is said, and settings are shown all the same."""
    run("add", "mock", "--model", "m")
    Path(".amplifier").mkdir()
    Path(".amplifier/settings.yaml").write_text("bundle: {active: none-such}\n")
    result = run("list", "--format", "json")
    assert "none-such" in result.stderr
    assert _records(result)["mock"]["configured"] == [{"name": "provider-mock", "where": "settings", "model": "m"}]


def test_manage(run: Run) -> None:
    """`manage` is the list, and what to do with it."""
    result = run("manage")
    assert result.stdout == run("list").stdout
    assert "amplifier provider add" in result.stderr


def test_add_edit_remove(run: Run, home: Path) -> None:
    """A provider is configured, changed and removed; every step is reported and is in the file."""
    file = home / "settings.yaml"
    assert run("add", "mock", "--model", "one", "--set", "responses=[hi]").exit_code == 0
    assert _entries(file) == [{"module": "provider-mock", "config": {"default_model": "one", "responses": ["hi"]}}]
    assert run("edit", "mock", "--model", "two", "--priority", "3", "--unset", "responses").exit_code == 0
    assert _entries(file) == [{"module": "provider-mock", "config": {"default_model": "two", "priority": 3}}]
    assert "unchanged" in run("edit", "mock", "--priority", "3").stderr
    refused = run("remove", "mock")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert run("remove", "mock", "--yes").exit_code == 0
    assert "config" not in read_document(file).data or not _entries(file)


def test_second_provider_of_a_type(run: Run, project: Path) -> None:
    """Two providers of one module have different names, by which they are distinguished."""
    run("add", "mock", "--id", "lab", "--project", "--base-url", "http://127.0.0.1:9")
    run("add", "mock", "--project")
    file = project / ".amplifier/settings.yaml"
    assert [entry.get("id") for entry in _entries(file)] == ["lab", None]
    assert run("edit", "lab", "--model", "x").exit_code == 0
    assert _entries(file)[0]["config"]["default_model"] == "x"
    assert run("remove", "lab", "--yes").exit_code == 0
    assert [entry["module"] for entry in _entries(file)] == ["provider-mock"]


def test_add_twice(run: Run) -> None:
    """A provider that is configured already is changed with `edit`, not added again."""
    run("add", "mock")
    again = run("add", "mock")
    assert again.exit_code == 2
    assert "provider set" in again.stderr


def test_add_what_is_not_there(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider whose module is missing is not configured, since every run would fail; it is said why."""
    monkeypatch.setattr("amplifier_app_cli.providers.known.is_installed", lambda module: module != "provider-openai")
    result = run("add", "openai")
    assert result.exit_code == 2
    assert "provider-openai is not installed" in result.stderr
    assert "amplifier settings set sources.modules.provider-openai" in result.stderr
    assert not (home / "settings.yaml").exists()


def test_add_says_that_an_address_is_needed(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot be guessed needs an address, which is said unless it is given or set."""
    monkeypatch.delenv("VLLM_BASE_URL", raising=False)
    assert "give --base-url, or set VLLM_BASE_URL" in run("add", "vllm").stderr
    assert "--base-url" not in run("add", "vllm", "--id", "lab", "--base-url", "http://127.0.0.1:9").stderr
    monkeypatch.setenv("VLLM_BASE_URL", "http://127.0.0.1:9")
    assert "--base-url" not in run("add", "vllm", "--id", "other").stderr


def test_address_under_its_own_name(run: Run, home: Path) -> None:
    """`--base-url` is written under the name that the provider has for it."""
    run("add", "ollama", "--base-url", "http://127.0.0.1:9")
    run("edit", "ollama", "--base-url", "http://127.0.0.1:10")
    run("add", "openai", "--base-url", "http://127.0.0.1:11", "--key-from-env", "MINE")
    first, second = _entries(home / "settings.yaml")
    assert first["config"] == {"host": "http://127.0.0.1:10"}
    assert second["config"]["base_url"] == "http://127.0.0.1:11"


def test_add_unknown(run: Run) -> None:
    """An unknown type gets a hint; without a terminal a type is needed."""
    assert "did you mean 'mock'" in run("add", "mok").stderr
    assert run("add").exit_code == 2


def test_key_of_an_added_provider(run: Run, home: Path, loud: Path) -> None:
    """A key that is piped in lies in the key store; one of a variable is referred to; a clear one is moved."""
    secret = "sk-abcdefghijklmnopqrstuvwx123456"
    source = ("--source", str(loud))
    assert run("add", "openai", *source, "--key-stdin", stdin=f"{secret}\n").exit_code == 0
    assert f'OPENAI_API_KEY="{secret}"' in (home / "keys.env").read_text()
    assert run("add", "anthropic", *source, "--key-from-env", "MINE").exit_code == 0
    assert run("add", "gemini", *source, "--set", f"api_key={secret}9").exit_code == 0
    text = (home / "settings.yaml").read_text()
    assert "${MINE}" in text
    assert secret not in text
    assert "ANTHROPIC_API_KEY" not in run("list").stderr
    assert run("add", "mock", "--key-stdin", stdin="x").exit_code == 2


def test_missing_key_is_said(run: Run, loud: Path) -> None:
    """Without a terminal, a missing key is reported, with the command that stores it."""
    result = run("add", "openai", "--source", str(loud))
    assert result.exit_code == 0
    assert "amplifier keys set OPENAI_API_KEY" in result.stderr


def test_edit_what_the_bundle_names(run: Run, home: Path) -> None:
    """A provider of the bundle is changed by settings laid over it; it cannot be removed there."""
    assert run("edit", "mock", "--model", "other").exit_code == 0
    assert _entries(home / "settings.yaml") == [{"module": "provider-mock", "config": {"default_model": "other"}}]
    run("remove", "mock", "--yes")
    refused = run("remove", "mock", "--yes")
    assert refused.exit_code == 1
    assert "bundle" in refused.stderr


def test_edit_needs_something_to_change(run: Run) -> None:
    """Without a terminal, `edit` without options is a usage error; an unknown name is reported."""
    assert run("edit", "mock").exit_code == 2
    assert run("edit", "nothing", "--model", "x").exit_code == 2


def test_mock_is_tested(amplifier: Amplifier, environment: dict[str, str]) -> None:
    """One request goes through the module; the result is on standard output, and no session is kept."""
    result = amplifier("provider", "test")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("provider-mock: ok, model mock-model, ")
    assert "provider: mock" in result.stderr
    record = json.loads(amplifier("provider", "test", "mock", "--format", "json").stdout)
    assert record["status"] == "ok"
    assert record["text"]
    assert record["output_tokens"] > 0
    assert not (Path(environment["HOME"]) / ".amplifier" / "projects").exists()


def test_provider_that_fails(amplifier: Amplifier, project: Path) -> None:
    """A provider that fails ends the command with the code for that, in words and for programs."""
    (project / "run.yaml").write_text("turns: [{error: {type: AuthenticationError, message: bad key}}]\n")
    (project / "bundle.yaml").write_text(
        textwrap.dedent("""\
            bundle: {name: failing}
            includes: [minimal]
            providers: [{module: provider-mock, config: {scenario: ./run.yaml}}]
        """)
    )
    amplifier("settings", "set", "bundle.active", "./bundle.yaml", "--project")
    result = amplifier("provider", "test", "--format", "json")
    assert result.returncode == 7
    assert "AuthenticationError: bad key" in result.stderr
    assert json.loads(result.stdout)["status"] == "error"


def test_unknown_and_missing_providers(amplifier: Amplifier) -> None:
    """An unknown provider gets a hint; the local model says how to install it while it is missing."""
    unknown = amplifier("provider", "test", "opnai")
    assert unknown.returncode == 2
    assert "did you mean 'openai'" in unknown.stderr
    absent = amplifier("provider", "test", "local")
    assert absent.returncode == 7
    assert "run `amplifier provider install local`" in absent.stderr


def test_models(amplifier: Amplifier) -> None:
    """The models of a provider are printed, for programs with everything that is known of them."""
    assert "mock-model" in amplifier("provider", "models", "mock").stdout
    (model,) = json.loads(amplifier("provider", "models", "--format", "json").stdout)
    assert (model["provider"], model["id"], model["context_window"]) == ("provider-mock", "mock-model", 200_000)


def test_module_of_ones_own_that_prints(amplifier: Amplifier, loud: Path) -> None:
    """A provider with a source is fetched and asked; what its module prints is not on standard output."""
    added = amplifier("provider", "add", "provider-loud", "--source", str(loud))
    assert added.returncode == 0, added.stderr
    record = json.loads(amplifier("provider", "test", "loud", "--format", "json").stdout)
    assert record["text"] == "loud and clear"
    models = amplifier("provider", "models", "loud", "--format", "json")
    assert json.loads(models.stdout)[0]["provider"] == "provider-loud"
    assert "noise" in models.stderr


def test_module_that_cannot_be_loaded(amplifier: Amplifier, loud: Path) -> None:
    """A provider whose module fails to load ends the command with the code for modules."""
    amplifier("provider", "add", "provider-loud", "--source", str(loud))
    (loud / "amplifier_module_provider_loud/__init__.py").write_text("raise RuntimeError('no good')\n")
    result = amplifier("provider", "test", "loud")
    assert result.returncode == 6
    assert "no good" in result.stderr


def test_add_asks_at_a_terminal(at_terminal: Callable[..., Any], environment: dict[str, str]) -> None:
    """At a terminal the type is asked for, from those that can be used."""
    child = at_terminal("provider", "add")
    child.expect("Google Gemini")
    child.expect("Provider .*: ")
    child.sendline("mock")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert _entries(Path(environment["HOME"]) / ".amplifier/settings.yaml") == [{"module": "provider-mock"}]
