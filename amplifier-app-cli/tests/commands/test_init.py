"""`amplifier init`: with questions and without, once and again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.init import init
from amplifier_app_cli.providers.known import all_key_names
from amplifier_foundation.documents import read_document
from amplifier_testing.llm.chat import ChatWire
from amplifier_testing.llm.server import ModelServer

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]
SECRET = "sk-abcdefghijklmnopqrstuvwx123456"


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

    def invoke(*arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(init, list(arguments), input=stdin, obj=App(), catch_exceptions=False)

    return invoke


@pytest.fixture
def openai(project: Path) -> None:
    """Put a module of the project in place of the one that is installed."""
    package = project / ".amplifier/modules/provider-openai/amplifier_module_provider_openai"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("async def mount(coordinator, config=None): ...\n")


def _data(home: Path) -> Any:
    return read_document(home / "settings.yaml").data


def test_from_nothing_to_an_answer(amplifier: Amplifier) -> None:
    """After init the program answers, and init has said what to run."""
    result = amplifier("init", "--provider", "mock", "--model", "m", "--bundle", "minimal", "--yes")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert "provider: mock, model m (configured in settings)" in result.stderr
    assert "next: amplifier run" in result.stderr
    assert amplifier("run", "hello").returncode == 0


@pytest.mark.parametrize("is_set", [False, True])
def test_a_key_that_is_missing_comes_first(run: Run, monkeypatch: pytest.MonkeyPatch, is_set: bool) -> None:
    """Without a key the first thing to do is to set it; with one there is nothing to do before a run."""
    if is_set:
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    told = run("--provider", "anthropic", "--yes").stderr
    steps = [line.removeprefix("next:").strip() for line in told[told.index("next:") :].splitlines()]
    assert (steps[0] == "amplifier keys set ANTHROPIC_API_KEY") is not is_set
    assert steps[-2].startswith("amplifier run")


def test_again_changes_nothing(run: Run, home: Path) -> None:
    """The same wishes again leave every file as it is."""
    arguments = ("--provider", "mock", "--model", "m", "--bundle", "minimal", "--yes")
    assert "changed: provider, bundle" in run(*arguments).stderr
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert "nothing to change" in run(*arguments).stderr
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_nothing_wanted(run: Run, home: Path) -> None:
    """With --yes alone nothing is written, and the provider that answers is reported."""
    result = run("--yes")
    assert result.exit_code == 0
    assert "provider: mock" in result.stderr
    assert not (home / "settings.yaml").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--provider", "mock"),
        ("--model", "m", "--yes"),
        ("--provider", "mok", "--yes"),
        ("--provider", "mock", "--key-from-env", "A", "--key-stdin", "--yes"),
        ("--provider", "mock", "--key-from-env", "NOT_SET_ANYWHERE", "--yes"),
        ("--provider", "mock", "--key-stdin", "--yes"),
    ],
)
def test_what_cannot_be_done(run: Run, home: Path, arguments: tuple[str, ...]) -> None:
    """Unclear or impossible wishes, and questions without a terminal, are usage errors; nothing is written."""
    assert run(*arguments, stdin=SECRET).exit_code == 2
    assert not (home / "settings.yaml").exists()


def test_module_that_is_missing(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider whose module is not there cannot be chosen; nothing is written."""
    monkeypatch.setattr("amplifier_app_cli.providers.known.is_installed", lambda module: module != "provider-gemini")
    result = run("--provider", "gemini", "--yes")
    assert result.exit_code == 2
    assert "provider-gemini is not installed" in result.stderr
    assert not (home / "settings.yaml").exists()


def test_keys_that_are_there(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the environment is enough: its provider answers without a setting, and other keys are reported."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    result = run("--yes")
    assert "provider: anthropic (ANTHROPIC_API_KEY is set; GEMINI_API_KEY is too)" in result.stderr
    assert SECRET not in result.output
    assert not (home / "settings.yaml").exists()


def test_bundle_that_is_none(run: Run, home: Path) -> None:
    """A bundle that cannot be composed is not chosen."""
    assert run("--bundle", "none-such", "--yes").exit_code == 2
    assert not (home / "settings.yaml").exists()


def test_bundle_by_its_path(run: Run, home: Path, project: Path) -> None:
    """A bundle that is given by a path is found from everywhere."""
    (project / "mine.yaml").write_text("bundle: {name: mine}\nincludes: [minimal]\n")
    assert run("--bundle", "./mine.yaml", "--yes").exit_code == 0
    assert _data(home)["bundle"]["active"] == str(project / "mine.yaml")


@pytest.mark.usefixtures("openai")
def test_key_from_standard_input(run: Run, home: Path) -> None:
    """A key that is piped in is kept under the provider's name; again with the same one nothing changes."""
    arguments = ("--provider", "openai", "--key-stdin", "--yes")
    result = run(*arguments, stdin=f"{SECRET}\n")
    assert result.exit_code == 0, result.output
    assert f'OPENAI_API_KEY="{SECRET}"' in (home / "keys.env").read_text()
    assert SECRET not in (home / "settings.yaml").read_text()
    assert SECRET not in result.output
    assert "nothing to change" in run(*arguments, stdin=f"{SECRET}\n").stderr


@pytest.mark.usefixtures("openai")
def test_key_from_a_variable(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key stays in the environment: settings refer to a variable of another name, and to the usual one not at all."""
    monkeypatch.setenv("MY_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert run("--provider", "openai", "--key-from-env", "OPENAI_API_KEY", "--yes").exit_code == 0
    assert _data(home)["config"]["providers"] == [{"module": "provider-openai", "config": {"priority": 0}}]
    assert run("--provider", "openai", "--key-from-env", "MY_KEY", "--yes").exit_code == 0
    (entry,) = _data(home)["config"]["providers"]
    assert entry["config"]["api_key"] == "${MY_KEY}"
    assert not (home / "keys.env").exists()


@pytest.mark.usefixtures("openai")
def test_the_last_choice_answers(run: Run) -> None:
    """The provider that was chosen last comes before all others."""
    run("--provider", "mock", "--yes")
    assert "provider: openai (configured in settings)" in run("--provider", "openai", "--yes").stderr
    assert "provider: mock (configured in settings)" in run("--provider", "mock", "--yes").stderr


def test_questions_at_a_terminal(at_terminal: Callable[..., Any], environment: dict[str, str]) -> None:
    """At a terminal provider, model and bundle are asked for, one after the other."""
    child = at_terminal("init")
    for question, answer in (("Provider", "mock"), ("Model", "m"), ("Bundle", "minimal")):
        child.expect(f"{question}.*: ")
        child.sendline(answer)
    child.expect("next: amplifier run")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    data = _data(Path(environment["HOME"]) / ".amplifier")
    assert data["bundle"] == {"active": "minimal"}
    assert data["config"]["providers"][0]["config"] == {"priority": 0, "default_model": "m"}


@pytest.mark.parametrize(("provider", "key"), [("vllm", "base_url"), ("ollama", "host")])
def test_address_of_a_server(run: Run, home: Path, provider: str, key: str) -> None:
    """The address is kept under the name that the provider has for it."""
    assert run("--provider", provider, "--base-url", "http://127.0.0.1:1/v1", "--yes").exit_code == 0
    (entry,) = _data(home)["config"]["providers"]
    assert entry["config"][key] == "http://127.0.0.1:1/v1"


def test_address_that_is_missing(run: Run, home: Path) -> None:
    """A provider that is nowhere without an address says what to give."""
    assert "needs the address of its server: give --base-url" in run("--provider", "vllm", "--yes").stderr


@pytest.fixture
def models() -> Iterator[str]:
    """Yield the address of a server that lists two models."""
    with ModelServer() as server:
        server.answers(ChatWire().models("gpt-one", "gpt-two"), path="/v1/models")
        yield f"{server.url}/v1"


def test_the_key_comes_before_the_model(
    at_terminal: Callable[..., Any], environment: dict[str, str], models: str
) -> None:
    """The key is asked for first, hidden, and the models that it gives access to are listed; a number picks one."""
    child = at_terminal("init", OPENAI_BASE_URL=models)
    child.expect(r"Provider \(q leaves\).*: ")
    child.sendline("openai")
    child.expect("OPENAI_API_KEY .hidden while you type.*: ")
    child.sendline(SECRET)
    child.expect("1  gpt-one")
    child.expect("2  gpt-two")
    child.expect("Model .number or name.*: ")
    child.sendline("2")
    child.expect("Bundle.*: ")
    assert not (Path(environment["HOME"]) / ".amplifier" / "keys.env").exists()
    child.sendline("")
    child.expect("next: amplifier run")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    home = Path(environment["HOME"]) / ".amplifier"
    assert _data(home)["config"]["providers"][0]["config"]["default_model"] == "gpt-two"
    assert f'OPENAI_API_KEY="{SECRET}"' in (home / "keys.env").read_text()


@pytest.mark.parametrize("leave", ["q\n", "\x03", "\x04"])
@pytest.mark.parametrize("question", ["Provider", "OPENAI_API_KEY", "Model", "Bundle"])
def test_it_can_be_left_at_every_question(
    at_terminal: Callable[..., Any], environment: dict[str, str], models: str, question: str, leave: str
) -> None:
    """A q, Ctrl-C or Ctrl-D at any question leaves without a traceback, and no file was written."""
    child = at_terminal("init", OPENAI_BASE_URL=models)
    for asked, answer in (("Provider", "openai"), ("OPENAI_API_KEY", SECRET), ("Model", "1"), ("Bundle", "minimal")):
        child.expect(rf"{asked}[^\n]*: ")
        if asked == question:
            child.send(leave)
            break
        child.sendline(answer)
    child.expect("nothing was changed")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1
    assert not list((Path(environment["HOME"]) / ".amplifier").glob("*.*"))


def test_a_refused_key_is_said_before_anything_is_written(
    at_terminal: Callable[..., Any], environment: dict[str, str]
) -> None:
    """When the models cannot be listed the reason is shown, and a model can be named all the same."""
    with ModelServer() as server:
        server.answers(ChatWire().refusal(401, "invalid_api_key", "Incorrect API key"), path="/v1/models")
        child = at_terminal("init", "--provider", "openai", OPENAI_BASE_URL=f"{server.url}/v1")
        child.expect("OPENAI_API_KEY.*: ")
        child.sendline(SECRET)
        child.expect("note: the models of openai cannot be listed: .*Incorrect API key")
        child.expect("Model .empty for.*: ")
        child.sendline("q")
        child.expect("nothing was changed")
        child.expect(pexpect.EOF)
    assert not (Path(environment["HOME"]) / ".amplifier" / "keys.env").exists()
