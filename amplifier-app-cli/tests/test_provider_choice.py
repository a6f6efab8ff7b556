"""The choice of a provider: its order, its one line, and that nothing is ever chosen in silence."""

from __future__ import annotations

import copy
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.providers import local_server
from amplifier_app_cli.providers.choice import (
    Choice,
    ProviderChoiceError,
    UnknownProviderError,
    apply,
    choose,
    find_entry,
    stands_in,
)
from amplifier_app_cli.providers.known import KNOWN, MOCK, SERVERS, all_key_names, is_installed, known_provider
from amplifier_app_cli.providers.local_server import serves_models
from amplifier_foundation.bundles.bundle import Layer
from amplifier_foundation.documents import Document
from amplifier_kit.engine.loop.request import choose_provider

_MODULES = [known.module for known in KNOWN]
_PAID = {known.module for known in KNOWN if known.keys}

_CONFIGS = st.fixed_dictionaries(
    {}, optional={"priority": st.integers(-5, 200), "default_model": st.sampled_from(["small", "large"])}
)
_ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"module": st.sampled_from([*_MODULES, "provider-own"])},
        optional={"id": st.sampled_from(["one", "two", "lab"]), "config": _CONFIGS},
    ),
    max_size=4,
    unique_by=lambda entry: str(entry.get("id") or entry["module"]),
)
_PLANS = st.fixed_dictionaries(
    {"providers": _ENTRIES},
    optional={
        "session": st.fixed_dictionaries(
            {"orchestrator": st.just("loop-basic") | st.fixed_dictionaries({"module": st.just("loop-basic")})}
        )
    },
)
_ENVIRONS = st.dictionaries(st.sampled_from(all_key_names()), st.sampled_from(["", " ", "a-key"]))
_INSTALLED = st.frozensets(st.sampled_from(_MODULES)).map(lambda some: some | {MOCK})
_PORTS = st.frozensets(st.sampled_from([server.port for server in SERVERS]))


def _choose(plan: Any = None, environ: Any = None, *, settings: Any = None, **more: Any) -> Choice:
    installed = more.pop("installed", {MOCK})
    ports = more.pop("ports", set())
    more.setdefault("embedded", lambda: "smollm2-135m")
    return choose(
        plan or {}, settings or {}, environ or {}, probe=ports.__contains__, installed=installed.__contains__, **more
    )


def _attempt(*arguments: Any, **more: Any) -> Choice | ProviderChoiceError:
    try:
        return _choose(*arguments, **more)
    except ProviderChoiceError as error:
        return error


@given(plan=_PLANS, environ=_ENVIRONS, installed=_INSTALLED, ports=_PORTS)
def test_nothing_is_chosen_in_silence(plan: Any, environ: Any, installed: Any, ports: Any) -> None:
    """Whatever is set: one line says which provider and why, and one that costs money was configured or has its key."""
    before = copy.deepcopy(plan)
    choice = _attempt(plan, environ, installed=installed, ports=ports)
    assert plan == before
    if isinstance(choice, ProviderChoiceError):
        # Only when a key is set for a module that is missing while another one could be paid instead.
        assert "not installed" in str(choice)
        return
    assert "\n" not in choice.line
    assert choice.provider.removeprefix("provider-") in choice.line
    assert choice.why in choice.line
    assert choice.how_to_change in choice.line
    named = {entry.get("id") or entry["module"] for entry in plan["providers"]}
    assert choice.provider in named or choice.module in installed
    if choice.module in _PAID and choice.provider not in named:
        first = next(known for known in KNOWN if known.found(environ))
        assert choice.module == first.module


@given(plan=_PLANS, environ=_ENVIRONS, installed=_INSTALLED)
def test_a_key_keeps_the_program_from_looking_around(plan: Any, environ: Any, installed: Any) -> None:
    """With a key in the environment, or a provider configured, no port is looked at."""
    looked: list[int] = []

    def look(port: int) -> bool:
        looked.append(port)
        return False

    has_key = any(known.found(environ) for known in KNOWN)
    has_failed = False
    try:
        choose(plan, {}, environ, probe=look, installed=installed.__contains__)
    except ProviderChoiceError:
        has_failed = True
    if has_key or any(entry["module"] != MOCK for entry in plan["providers"]):
        assert looked == []
        assert has_key or not has_failed


@given(plan=_PLANS, environ=_ENVIRONS, installed=_INSTALLED, data=st.data())
def test_what_is_asked_for_is_chosen(plan: Any, environ: Any, installed: Any, data: Any) -> None:
    """A provider that is asked for by name is the one, or there is an error: never another."""
    name = data.draw(st.sampled_from([*(known.id for known in KNOWN), *_MODULES, "one", "lab", "nonsense"]))
    choice = _attempt(plan, environ, installed=installed, explicit=name, model="m")
    if isinstance(choice, UnknownProviderError):
        assert repr(name) in str(choice)
        return
    if isinstance(choice, ProviderChoiceError):
        known = known_provider(name)
        assert known is not None
        assert known.module not in installed
        return
    assert choice.model == "m"
    assert name in (choice.provider, choice.module, choice.module.removeprefix("provider-"))


@given(plan=_PLANS, environ=_ENVIRONS, installed=_INSTALLED, ports=_PORTS, data=st.data())
def test_the_loop_uses_what_was_chosen(plan: Any, environ: Any, installed: Any, ports: Any, data: Any) -> None:
    """After `apply` the loop's own rule picks the chosen provider; nothing else of the plan is changed."""
    names = [None, "mock", *(entry.get("id") or entry["module"] for entry in plan["providers"])]
    asked = data.draw(st.sampled_from(names))
    choice = _attempt(plan, environ, installed=installed, ports=ports, explicit=asked, model="wanted")
    if isinstance(choice, ProviderChoiceError):
        return
    before = copy.deepcopy(plan)
    changed = apply(choice, plan)
    assert plan == before
    mounted = {entry.get("id") or entry["module"]: _Mounted(entry.get("config")) for entry in changed["providers"]}
    assert choose_provider(mounted).name == choice.provider
    assert mounted[choice.provider].config["default_model"] == "wanted"
    others = [entry for entry in changed["providers"] if (entry.get("id") or entry["module"]) != choice.provider]
    assert others == [e for e in plan["providers"] if (e.get("id") or e["module"]) != choice.provider]
    assert apply(choice, changed) == changed


class _Mounted:
    """A provider as a loop sees it."""

    def __init__(self, config: dict[str, Any] | None) -> None:
        self.config = config or {}


def test_order_of_keys() -> None:
    """Keys are looked for in a fixed order, and the line names the one that was found."""
    everything = dict.fromkeys(all_key_names(), "x")
    order = []
    while any(known.found(everything) for known in KNOWN):
        choice = _choose({}, everything, installed=set(_MODULES))
        known = known_provider(choice.module)
        assert known is not None
        assert known.variables[0] in choice.line
        order.append(known.id)
        for name in known.variables:
            everything.pop(name)
    assert order == ["anthropic", "openai", "azure-openai", "gemini"]


def test_half_of_a_pair_is_no_key() -> None:
    """Azure needs its endpoint too; of the two names for Gemini's key one is enough."""
    azure, gemini = known_provider("azure-openai"), known_provider("gemini")
    assert azure is not None
    assert gemini is not None
    assert azure.missing({"AZURE_OPENAI_API_KEY": "x"}) == ("AZURE_OPENAI_ENDPOINT",)
    assert _choose({}, {"AZURE_OPENAI_API_KEY": "x"}, installed=set(_MODULES)).module == "provider-local"
    assert gemini.found({"GOOGLE_API_KEY": "x"}) == ("GOOGLE_API_KEY",)


def test_key_without_its_module_is_said() -> None:
    """In this release a key has no module: the scripted model answers, and the line says why."""
    choice = _choose({}, {"OPENAI_API_KEY": "x"})
    assert choice.is_mock
    assert "OPENAI_API_KEY is set, but provider-openai is not installed" in choice.line


def test_another_paid_provider_is_not_taken_instead() -> None:
    """A key whose module is missing stops the run when the next key would cost money elsewhere."""
    environ = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}
    with pytest.raises(ProviderChoiceError, match="--provider openai"):
        _choose({}, environ, installed={MOCK, "provider-openai"})


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.title)
def test_local_servers(server: Any) -> None:
    """A server on this machine is used with the address it has, or said when its module is missing."""
    known = known_provider(server.provider)
    assert known is not None
    choice = _choose({}, ports={server.port}, installed={MOCK, known.module})
    assert (choice.module, choice.config.get("base_url", "")) == (known.module, server.base_url)
    assert f"{server.title} answers on port {server.port}" in choice.line
    said = _choose({}, ports={server.port})
    assert said.is_mock
    assert f"but {known.module} is not installed" in said.line


def test_embedded_before_scripted() -> None:
    """Without key and server the model inside the program answers, and without that the scripted one."""
    small = _choose({}, installed={MOCK, "provider-local"})
    assert small.module == "provider-local"
    assert "a small model on this machine, without tools" in small.line
    coder = _choose({}, installed={MOCK, "provider-local"}, embedded=lambda: "qwen2.5-coder-1.5b")
    assert coder.module == "provider-local"
    assert "qwen2.5-coder-1.5b, on this machine, since no key" in coder.line
    scripted = _choose({})
    assert scripted.is_mock
    assert "`amplifier init`" in scripted.line
    assert "provider install local" not in scripted.line


def test_embedded_only_with_its_engine() -> None:
    """The module alone is no model: until its engine is installed the scripted one answers and says how to get it."""
    choice = _choose({}, installed={MOCK, "provider-local"}, embedded=lambda: None)
    assert choice.is_mock
    assert "`amplifier provider install local`" in choice.line
    asked_for = _choose({}, explicit="local", installed={MOCK, "provider-local"}, embedded=lambda: None)
    assert asked_for.module == "provider-local"


def test_configured_wins_over_keys() -> None:
    """What settings or the bundle configure is used, the lowest priority first; the line says where from."""
    plan = {"providers": [{"module": "provider-own", "config": {"priority": 5}}, {"module": "provider-openai"}]}
    environ = {"ANTHROPIC_API_KEY": "x"}
    bundle = _choose(plan, environ, installed=set(_MODULES))
    assert (bundle.provider, bundle.why) == ("provider-own", "configured in the bundle")
    settings = {"config": {"providers": [{"module": "provider-own"}]}}
    assert _choose(plan, environ, settings=settings).why == "configured in settings"


@pytest.mark.parametrize("config", [{"scenario": "run.yaml"}, {"record": "out.yaml"}])
def test_scripted_on_purpose(config: dict[str, Any]) -> None:
    """A scripted model with a scenario is meant, and no key takes its place."""
    plan = {"providers": [{"module": MOCK, "config": config}]}
    assert _choose(plan, {"OPENAI_API_KEY": "x"}, installed=set(_MODULES)).is_mock


def test_scripted_by_settings_or_by_a_bundle_of_ones_own() -> None:
    """The scripted model is a stand-in only where the product put it."""
    plan = {"providers": [{"module": MOCK, "config": {"responses": ["hi"]}}]}
    keys = {"OPENAI_API_KEY": "x"}
    assert not _choose(plan, keys, installed=set(_MODULES)).is_mock
    assert _choose(plan, keys, installed=set(_MODULES), stand_in=False).is_mock
    assert _choose(plan, keys, installed=set(_MODULES), settings={"config": {"providers": [{"module": MOCK}]}}).is_mock
    document = Document(Path("own.yaml"), {"providers": [{"module": MOCK}]})
    assert stands_in([Layer(document, "product", "product", "default", "")])
    assert not stands_in([Layer(document, "project", "user", "own", "")])


def test_loops_own_choice_is_kept_and_changed() -> None:
    """`default_provider` of the loop counts as configured; asking for another one changes it."""
    entries = [{"module": "provider-own"}, {"module": "provider-openai", "id": "lab", "instance_id": "lab"}]
    loop = {"module": "loop-basic", "config": {"default_provider": "lab"}}
    plan = {"session": {"orchestrator": loop}, "providers": entries}
    assert _choose(plan).provider == "lab"
    changed = apply(_choose(plan, explicit="own"), plan)
    assert changed["session"]["orchestrator"]["config"]["default_provider"] == "provider-own"


def test_unknown_names_get_a_hint() -> None:
    """A name with a slip of the pen is an error that names the nearest one."""
    with pytest.raises(UnknownProviderError, match="did you mean 'anthropic'"):
        _choose({}, explicit="antropic")
    with pytest.raises(ProviderChoiceError, match="provider-local is not installed"):
        _choose({}, explicit="local")


def test_names_of_entries() -> None:
    """An id counts more than a module, and a module more than its short name."""
    entries = [{"module": "provider-openai", "id": "mock"}, {"module": MOCK}]
    assert find_entry("mock", entries) is entries[0]
    assert find_entry(MOCK, entries) is entries[1]
    assert find_entry("openai", entries) is entries[0]
    assert find_entry("nothing", entries) is None


def test_missing_key_of_what_is_asked_for() -> None:
    """Of a provider that is asked for without its key, it is known what is not set."""
    choice = _choose({}, explicit="openai", installed={"provider-openai"})
    assert "OPENAI_API_KEY is not set" in choice.line
    assert choice.unset == ("OPENAI_API_KEY",)


@pytest.mark.parametrize("provider", [known.id for known in KNOWN if known.keys])
def test_one_line_for_a_missing_key(amplifier: Callable[..., Any], provider: str) -> None:
    """A run that asks for a provider without a key says in one line what to set, and ends with the provider's code."""
    done = amplifier("run", "--provider", provider, "hello")
    assert (done.returncode, done.stdout) == (7, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"amplifier: provider '{provider}' has no key: ")
    assert f"amplifier provider test {provider}" in line


@pytest.mark.parametrize(
    ("entry", "environ", "unset"),
    [
        ({"module": "provider-openai"}, {}, ("OPENAI_API_KEY",)),
        ({"module": "provider-openai"}, {"OPENAI_API_KEY": "x"}, ()),
        ({"module": "provider-openai", "source": "./mine"}, {}, ()),
        ({"module": "provider-openai", "config": {"api_key": "given"}}, {}, ()),
        ({"module": "provider-openai", "config": {"api_key": "${MINE}"}}, {}, ("MINE",)),
        ({"module": "provider-openai", "config": {"api_key": "${MINE}"}}, {"MINE": "x"}, ()),
        ({"module": "provider-openai", "config": {"api_key": "${MINE:given}"}}, {}, ()),
        ({"module": "provider-openai", "config": {"api_key": "${MINE}"}}, {"OPENAI_API_KEY": "x"}, ()),
        ({"module": "provider-gemini"}, {"GOOGLE_API_KEY": "x"}, ()),
        ({"module": "provider-azure-openai"}, {}, ()),
        ({"module": "provider-ollama"}, {}, ()),
        ({"module": "provider-own"}, {}, ()),
    ],
)
def test_missing_key_of_what_is_configured(entry: Any, environ: Any, unset: tuple[str, ...]) -> None:
    """A key is said to be missing only where it is certain that the provider cannot answer without it."""
    assert _choose({"providers": [entry]}, environ).unset == unset
    assert _choose({"providers": [entry]}, environ, explicit=entry["module"]).unset == unset


def test_a_configured_provider_without_its_key(amplifier: Callable[..., Any]) -> None:
    """A run or a resume whose configured provider has no key says what to set, and nothing answers in its place."""
    assert amplifier("run", "hello").returncode == 0
    assert amplifier("init", "--provider", "anthropic", "--yes").returncode == 0
    for extra in ((), ("--allow-missing-modules",)):
        done = amplifier("run", *extra, "hello")
        assert (done.returncode, done.stdout) == (7, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("amplifier: provider 'anthropic' has no key: ANTHROPIC_API_KEY is not set.")
    # A session goes on with the provider it was recorded with.
    assert amplifier("continue", "hello").returncode == 0


def test_known_providers_are_installed() -> None:
    """Every provider that is known by name is a part of the program."""
    assert [known.id for known in KNOWN if not is_installed(known.module)] == []
    assert not is_installed("provider-openai-nowhere")


@contextmanager
def _serving(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, json.dumps({"object": "list", "data": [{"id": "m"}]}).encode(), True),
        (200, json.dumps({"object": "list", "data": None}).encode(), True),
        (404, b'{"data": []}', False),
        (200, b"<html>a development server {x}</html>", False),
        (200, b"[]", False),
        (200, b"", False),
    ],
)
def test_what_counts_as_a_model_server(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, expected: bool
) -> None:
    """Something that merely listens, or serves web pages, is not taken for a server of models."""
    monkeypatch.setattr(local_server, "_ANSWER", 60.0)  # not about time: a busy machine may answer late
    with _serving(status, body) as port:
        assert serves_models(port) is expected


def test_nothing_listens() -> None:
    """A port where nothing listens is no server, and one that answers nothing is none either."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert serves_models(port) is False
        listener.listen()
        assert serves_models(port) is False
