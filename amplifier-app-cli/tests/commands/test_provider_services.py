"""`amplifier provider test|models` and `amplifier run`, with every provider, against services on this machine."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from amplifier_app_cli.providers.known import KNOWN
from amplifier_testing.llm import ModelServer, Reply
from amplifier_testing.llm.service import Service

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

RIGHT = "sk-right-0123456789abcdefghij"
WRONG = "sk-wrong-0123456789abcdefghij"
#: Variables that the environment of the tests may hold, and no test wants.
_STRAY = ("_API_KEY", "_BASE_URL", "_ENDPOINT", "_HOST", "_PROXY", "_proxy")


@dataclass(frozen=True)
class Case:
    """A provider, the protocol that its service speaks, and how it learns of both."""

    provider: str
    protocol: str
    key: str
    address: str
    path: str = ""
    setting: str = ""
    #: What the setting for the address is called.
    url: str = "base_url"

    def __str__(self) -> str:
        return f"{self.provider} {self.setting}".strip()


CASES = [
    Case("anthropic", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    Case("openai", "responses", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    Case("azure-openai", "responses", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", url="azure_endpoint"),
    Case("gemini", "gemini", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    Case("ollama", "ollama", "OLLAMA_API_KEY", "OLLAMA_HOST", url="host"),
    Case("chat-completions", "chat", "CHAT_COMPLETIONS_API_KEY", "CHAT_COMPLETIONS_BASE_URL", "/v1"),
    Case("vllm", "responses", "VLLM_API_KEY", "VLLM_BASE_URL", "/v1"),
    Case("vllm", "chat", "VLLM_API_KEY", "VLLM_BASE_URL", "/v1", "api=chat"),
]
every_provider = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment without keys and addresses."""
    return {name: value for name, value in environment.items() if not name.endswith(_STRAY)}


@pytest.fixture
def home(environment: dict[str, str]) -> Path:
    """Return the home of the program, where everything that it keeps is."""
    return Path(environment["HOME"]) / ".amplifier"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Return a server that knows nothing yet."""
    with ModelServer() as running:
        yield running


def _configure(amplifier: Amplifier, case: Case, model: str, **environ: str) -> None:
    """Configure the provider, as a user would."""
    more = ("--set", case.setting) if case.setting else ()
    added = amplifier("provider", "add", case.provider, "--model", model, *more, **environ)
    assert added.returncode == 0, added.stderr


def _failure(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a failed command says, which ended with the code for providers."""
    assert done.returncode == 7, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith(("provider: ", "sandbox: ", "log: "))]
    assert line.startswith("amplifier: ")
    return line


def test_every_provider_has_a_case() -> None:
    """Every provider that asks a service is tried here."""
    assert {case.provider for case in CASES} == {known.id for known in KNOWN} - {"local", "mock"}


@every_provider
def test_a_provider_that_is_set_up(case: Case, amplifier: Amplifier, server: ModelServer) -> None:
    """With key, address and model the provider answers, and lists the models of its service."""
    server.answers(Service(case.protocol, models=("m-1", "m-2"), key=RIGHT, text="Yes, it works.").answer)
    environ = {case.key: RIGHT, case.address: f"{server.url}{case.path}"}
    _configure(amplifier, case, "m-2", **environ)
    tested = amplifier("provider", "test", case.provider, "--format", "json", **environ)
    assert tested.returncode == 0, tested.stderr
    record = json.loads(tested.stdout)
    assert (record["status"], record["text"], record["model"]) == ("ok", "Yes, it works.", "m-2")
    assert (record["input_tokens"], record["output_tokens"]) == (100, 3)
    listed = amplifier("provider", "models", case.provider, "--format", "json", **environ)
    assert sorted(model["id"] for model in json.loads(listed.stdout)) == ["m-1", "m-2"]
    assert RIGHT not in f"{tested}{listed}"


@every_provider
def test_a_wrong_key(case: Case, amplifier: Amplifier, server: ModelServer, home: Path) -> None:
    """A wrong key is one line that says where the key is; the key, which the service repeats, is in nothing of ours."""
    service = Service(case.protocol, models=("m-1",), key=RIGHT)
    refusal = service.protocol.wrong_key
    service.protocol = replace(service.protocol, wrong_key=refusal._replace(text=f"{refusal.text} It was {{key}}."))
    server.answers(service.answer)
    environ = {case.key: WRONG, case.address: f"{server.url}{case.path}"}
    _configure(amplifier, case, "m-1", **environ)
    outputs = [
        amplifier("provider", "test", case.provider, **environ),
        amplifier("provider", "models", case.provider, **environ),
        amplifier("run", "hello", **environ),
    ]
    for done in outputs:
        line = _failure(done)
        assert "AuthenticationError" in line
        assert "It was [REDACTED]" in line
        assert f"Check the key in {case.key}, " in line
        assert f"`amplifier provider test {case.provider}`" in line
        assert WRONG not in f"{done.stdout}{done.stderr}"
    files = [file for file in home.rglob("*") if file.is_file()]
    assert any(file.name == "events.jsonl" and b"AuthenticationError" in file.read_bytes() for file in files)
    assert [file for file in files if WRONG.encode() in file.read_bytes()] == []
    assert len(server.requests) == 3  # a wrong key does not become right


def test_a_wrong_key_of_one_of_several(amplifier: Amplifier, server: ModelServer) -> None:
    """Of several of one kind the one that failed is named, with the variable that its own key is in."""
    server.answers(Service("chat", models=("m-1",), key=RIGHT).answer)
    environ = {"WORK_SECRET": RIGHT, "HOME_SECRET": WRONG}
    for name, key, priority in (("work", "WORK_SECRET", "1"), ("home", "HOME_SECRET", "2")):
        given = (
            "--id",
            name,
            "--key-from-env",
            key,
            "--base-url",
            server.url,
            "--model",
            "m-1",
            "--priority",
            priority,
        )
        assert amplifier("provider", "add", "chat-completions", *given, **environ).returncode == 0
    line = _failure(amplifier("provider", "test", "home", **environ))
    assert "Check the key in HOME_SECRET, then run `amplifier provider test home`" in line
    assert amplifier("provider", "test", "work", **environ).returncode == 0


@every_provider
def test_a_wrong_model(case: Case, amplifier: Amplifier, server: ModelServer) -> None:
    """A model that the service does not have is one line with its name and the command that lists those it has."""
    server.answers(Service(case.protocol, models=("m-1",), key=RIGHT).answer)
    environ = {case.key: RIGHT, case.address: f"{server.url}{case.path}"}
    _configure(amplifier, case, "no-such-model", **environ)
    line = _failure(amplifier("provider", "test", case.provider, **environ))
    assert "NotFoundError" in line
    assert "Check the model 'no-such-model'" in line
    assert f"`amplifier provider models {case.provider}`" in line


@every_provider
def test_a_wrong_address(case: Case, amplifier: Amplifier, server: ModelServer) -> None:
    """An address where there is something else is one line with the address."""
    server.answers(Service(case.protocol, models=("m-1",), key=RIGHT).answer)
    environ = {case.key: RIGHT, case.address: f"{server.url}/nothing"}
    _configure(amplifier, case, "m-1", **environ)
    line = _failure(amplifier("provider", "test", case.provider, **environ))
    assert "NotFoundError" in line
    assert f"{case.url} at {server.url}/nothing" in line


@every_provider
def test_no_server(case: Case, amplifier: Amplifier) -> None:
    """A server that is not there is one line with the address, after one attempt."""
    with socket.socket() as taken:  # bound, so that no other process has the port, and not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        environ = {case.key: RIGHT, case.address: f"{url}{case.path}"}
        _configure(amplifier, case, "m-1", **environ)
        line = _failure(amplifier("provider", "test", case.provider, **environ))
    assert "could not be reached" in line
    assert f"Check {case.url} at {url}" in line
    assert RIGHT not in line


def test_a_service_that_fails_is_tried_once(amplifier: Amplifier, server: ModelServer) -> None:
    """What is wrong is reported at once, though a run would retry."""
    server.answers(Reply.error(500, {"error": {"message": "out of order"}}))
    environ = {"OPENAI_API_KEY": RIGHT, "OPENAI_BASE_URL": f"{server.url}/v1"}
    assert "out of order" in _failure(amplifier("provider", "test", "openai", **environ))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("azure-openai", "AZURE_OPENAI_ENDPOINT"),
        ("gemini", "GEMINI_API_KEY"),
        ("chat-completions", "CHAT_COMPLETIONS_BASE_URL"),
        ("vllm", "VLLM_BASE_URL"),
    ],
)
def test_nothing_is_set(amplifier: Amplifier, provider: str, variable: str) -> None:
    """A provider without its key, or without the address that it cannot guess, says what to set, in one line."""
    line = _failure(amplifier("provider", "test", provider))
    assert "no key" in line or "no server" in line or "no address" in line
    assert variable in line


def test_a_key_that_is_kept(amplifier: Amplifier, server: ModelServer, home: Path) -> None:
    """A key in the key store is used, and is in that file alone."""
    server.answers(Service("responses", models=("gpt-5.5",), key=RIGHT, text="Good morning.").answer)
    environ = {"OPENAI_BASE_URL": f"{server.url}/v1"}
    assert amplifier("provider", "add", "openai", "--key-stdin", stdin=f"{RIGHT}\n", **environ).returncode == 0
    answered = amplifier("run", "hello", **environ)
    assert answered.stdout == "Good morning.\n", answered.stderr
    files = [file for file in home.rglob("*") if file.is_file()]
    assert [file.name for file in files if RIGHT.encode() in file.read_bytes()] == ["keys.env"]


def test_two_servers_of_one_kind(amplifier: Amplifier) -> None:
    """Two providers of one module are distinguished by their ids, and each has its own address, key and model."""
    with ModelServer() as one, ModelServer() as two:
        one.answers(Service("chat", models=("m-1",), text="I am one.").answer)
        two.answers(Service("chat", models=("m-2",), key=RIGHT, text="I am two.").answer)
        environ = {"TWO_KEY": RIGHT}
        add = ("provider", "add", "chat-completions")
        amplifier(*add, "--id", "one", "--base-url", one.url, "--model", "m-1")
        more = ("--priority", "5", "--key-from-env", "TWO_KEY")
        amplifier(*add, "--id", "two", "--base-url", f"{two.url}/v1", "--model", "m-2", *more, **environ)
        usual = amplifier("run", "hello", **environ)
        other = amplifier("run", "--provider", "one", "hello", **environ)
        assert (usual.stdout, other.stdout) == ("I am two.\n", "I am one.\n"), usual.stderr + other.stderr
        assert RIGHT not in str(one.requests)


def test_the_address_of_ollama(amplifier: Amplifier, server: ModelServer) -> None:
    """`--base-url` becomes the setting that Ollama's provider has for it, so that no prompt goes elsewhere."""
    server.answers(Service("ollama", models=("m-1",), text="From over here.").answer)
    amplifier("provider", "add", "ollama", "--model", "m-1", "--base-url", "http://127.0.0.1:1")
    assert amplifier("provider", "edit", "ollama", "--base-url", server.url).returncode == 0
    tested = amplifier("provider", "test", "ollama")
    assert tested.returncode == 0, tested.stderr
    assert "From over here." in tested.stderr
