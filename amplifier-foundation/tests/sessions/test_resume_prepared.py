"""A resumed session is what it was: its record is used in the state it had, and what is different is told."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.bundle import BundleNotFoundError
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, prepare
from amplifier_foundation.sessions.fork import fork_session
from amplifier_foundation.sessions.resume import load_session, prepare_saved
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.settings.scopes import SettingsError
from amplifier_foundation.sources.fetched import SourceError

BUNDLE = """\
bundle: {name: mine}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {responses: [Hello.]}}
hooks:
  - {module: hooks-logging}
"""
TOOL = """\
class Tool:
    name = "NAME"
    description = "d"
    input_schema = {"type": "object"}

    async def execute(self, input):
        return None


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a bundle."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bundle.yaml").write_text(BUNDLE)
    return folder


def _options(home: Home, project: Path, **more: Any) -> Options:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.path), **more.pop("environ", {})}
    return Options(home, project, environ=environ, **more)


async def _session(options: Options) -> Path:
    async with SessionRuntime(await prepare(options), environ={}) as runtime:
        await runtime.execute("hello")
    return runtime.folder


def _git(folder: Path, *arguments: str) -> None:
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **names}
    subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, timeout=60, check=True)


def _commit(folder: Path) -> None:
    if not (folder / ".git").exists():
        _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "x")


def _tool(folder: Path, name: str, version: str = "1") -> Path:
    package = folder / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(TOOL.replace("NAME", name) + f"\n\nVERSION = {version!r}\n")
    (folder / "pyproject.toml").write_text(f'[project]\nname = "amplifier-module-{name}"\nversion = "{version}"\n')
    return folder


def _fetched_bundle(folder: Path, version: str, tool: str) -> str:
    """Make a repository with a bundle, a context file and a module of its own, or the next state of it."""
    _tool(folder / "modules" / tool, tool, version)
    (folder / "notes.md").write_text(f"Notes, version {version}.\n")
    (folder / "bundle.md").write_text(
        f"---\n{BUNDLE}tools: [{{module: {tool}, source: ./modules/{tool}}}]\ncontext: {{include: [notes.md]}}\n---\n"
        f"Instruction, version {version}.\n"
    )
    _commit(folder)
    return f"git+file://{folder}@main"


async def test_a_fetched_bundle_stays_in_the_state_it_had(home: Home, project: Path, tmp_path: Path) -> None:
    """After an update a session goes on with the files, context and modules of the commit that it was made with."""
    uri = _fetched_bundle(tmp_path / "repository", "1", "tool-state")
    folder = await _session(_options(home, project, bundle=uri))
    _fetched_bundle(tmp_path / "repository", "2", "tool-state")
    await prepare(_options(home, project, bundle=uri, update=True))
    prepared = await prepare_saved(load_session(folder), _options(home, project))
    assert any(warning.startswith(f"lock: {uri} was") for warning in prepared.warnings)
    assert not [warning for warning in prepared.warnings if warning.startswith("context:")]
    assert prepared.composed.instruction == "Instruction, version 1."
    [notes] = prepared.composed.context.values()
    assert Path(notes).read_text() == "Notes, version 1.\n"
    code = prepared.modules["tool-state"] / "amplifier_module_tool_state" / "__init__.py"
    assert "VERSION = '1'" in code.read_text()


async def test_a_state_that_cannot_be_had_is_an_error(home: Home, project: Path, tmp_path: Path) -> None:
    """Other content is never taken for what was recorded: without the recorded one the session does not start."""
    uri = _fetched_bundle(tmp_path / "repository", "1", "tool-gone")
    folder = await _session(_options(home, project, bundle=uri))
    _fetched_bundle(tmp_path / "repository", "2", "tool-gone")
    await prepare(_options(home, project, bundle=uri, update=True))
    (tmp_path / "repository").rename(tmp_path / "away")
    with pytest.raises(SourceError, match="repository"):
        await prepare_saved(load_session(folder), _options(home, project))


async def test_a_cache_that_was_emptied_is_filled_again(home: Home, project: Path, tmp_path: Path) -> None:
    """A session whose fetched bundle was deleted from the cache gets it again, in the state it had."""
    uri = _fetched_bundle(tmp_path / "repository", "1", "tool-again")
    folder = await _session(_options(home, project, bundle=uri))
    _fetched_bundle(tmp_path / "repository", "2", "tool-again")
    home.cache.rename(tmp_path / "old cache")
    prepared = await prepare_saved(load_session(folder), _options(home, project))
    [notes] = prepared.composed.context.values()
    assert Path(notes).read_text() == "Notes, version 1.\n"


async def test_settings_of_a_session_are_not_told_as_ignored(home: Home, project: Path) -> None:
    """What was set for one session is used and is no difference; when it is taken back, the record counts again."""
    folder = await _session(_options(home, project, bundle="bundle.yaml"))
    settings = folder / "settings.yaml"
    settings.write_text("overrides: {provider-mock: {config: {responses: [Mine alone.]}}}\n")
    for _ in range(2):
        saved = load_session(folder)
        prepared = await prepare_saved(saved, _options(home, project))
        assert prepared.warnings == ()
        async with SessionRuntime(prepared, saved=saved, environ={}) as runtime:
            assert await runtime.execute("again") == "Mine alone."
    settings.unlink()
    prepared = await prepare_saved(load_session(folder), _options(home, project))
    assert prepared.composed.plan["providers"][0]["config"]["responses"] == ["Hello."]
    assert prepared.warnings == ()


async def test_a_module_that_one_session_adds_is_made_ready(home: Home, project: Path, tmp_path: Path) -> None:
    """A session's settings may bring a module of their own, named from where they lie."""
    folder = await _session(_options(home, project, bundle="bundle.yaml"))
    _tool(folder / "tool-mine", "tool-mine")
    (folder / "settings.yaml").write_text("modules: {tools: [{module: tool-mine, source: ./tool-mine}]}\n")
    saved = load_session(folder)
    prepared = await prepare_saved(saved, _options(home, project))
    async with SessionRuntime(prepared, saved=saved, environ={}) as runtime:
        assert "tool-mine" in runtime.session.coordinator.get("tools")


async def test_settings_of_a_session_are_checked(home: Home, project: Path) -> None:
    """A key of a session's settings that nobody knows is an error with its line, as in all settings."""
    folder = await _session(_options(home, project, bundle="bundle.yaml"))
    (folder / "settings.yaml").write_text("overides: {}\n")
    with pytest.raises(SettingsError, match=r"settings\.yaml:1"):
        await prepare_saved(load_session(folder), _options(home, project))


async def test_a_folder_in_place_of_a_module_is_told(home: Home, project: Path, tmp_path: Path) -> None:
    """A variable that puts another module in place is used when a session is made, and told when it goes on without."""
    (project / "bundle.yaml").write_text(BUNDLE + "tools: [{module: tool-put}]\n")
    place = _tool(tmp_path / "put", "tool-put")
    variable = {"AMPLIFIER_MODULE_TOOL_PUT": str(place)}
    folder = await _session(_options(home, project, bundle="bundle.yaml", environ=variable))
    assert (await prepare_saved(load_session(folder), _options(home, project, environ=variable))).warnings == ()
    prepared = await prepare_saved(load_session(folder), _options(home, project))
    assert prepared.modules == {"tool-put": place}
    [warning] = prepared.warnings
    assert warning.startswith(f"module tool-put: from {place} when the session was made, from where the plan says now")


async def test_a_secret_that_cannot_be_found_again_is_told(home: Home, project: Path) -> None:
    """A value that the record has masked is not passed on in silence when its bundle is gone."""
    secret = BUNDLE.replace("config: {", "config: {api_key: hunter2hunter2, ")
    (project / "bundle.yaml").write_text(secret)
    folder = await _session(_options(home, project, bundle="bundle.yaml"))
    (project / "bundle.yaml").unlink()
    prepared = await prepare_saved(load_session(folder), _options(home, project))
    assert len(prepared.warnings) == 2
    assert prepared.warnings[1].startswith("providers.provider-mock.config.api_key: the record of the session holds")


async def test_a_project_that_is_gone_is_told(home: Home, project: Path, tmp_path: Path) -> None:
    """A session whose folder to work in was deleted goes on in the one at hand, and that is said."""
    folder = await _session(_options(home, project, bundle="minimal"))
    project.rename(tmp_path / "renamed")
    other = tmp_path / "other"
    other.mkdir()
    prepared = await prepare_saved(load_session(folder), _options(home, other))
    assert prepared.project == other
    assert prepared.warnings == (f"the folder {project} that the session worked in no longer exists: {other} is used",)


async def test_the_record_of_a_session_stays_what_it_was(home: Home, project: Path) -> None:
    """Going on with what was recorded changes no record; going on with another bundle does, and keeps the old one."""
    folder = await _session(_options(home, project, bundle="bundle.yaml"))
    before = (folder / "record.json").read_bytes()
    (project / "bundle.yaml").write_text(BUNDLE.replace("Hello.", "Other."))
    for more in ({}, {"bundle": "bundle.yaml"}):
        saved = load_session(folder)
        prepared = await prepare_saved(saved, _options(home, project, **more))
        async with SessionRuntime(prepared, saved=saved, environ={}):
            pass
        assert ((folder / "record.json").read_bytes() == before) is not bool(more)
    assert (folder / "record.json.backup").read_bytes() == before
    assert json.loads((folder / "record.json").read_text())["plan"]["providers"][0]["config"]["responses"] == ["Other."]


async def test_what_an_app_changes_itself_is_no_difference(home: Home, project: Path) -> None:
    """The plan of now is compared as the app would run it; what the app changes otherwise than before is told."""

    def without_stream(plan: dict[str, Any], layers: tuple[Any, ...]) -> dict[str, Any]:
        assert [layer.owner for layer in layers] == ["project"]
        [provider] = plan["providers"]
        return {**plan, "providers": [{**provider, "config": {**provider["config"], "use_streaming": False}}]}

    options = _options(home, project, bundle="./bundle.yaml")
    prepared = await prepare(options)
    plan = without_stream(prepared.composed.plan, prepared.layers)
    async with SessionRuntime(replace(prepared, composed=replace(prepared.composed, plan=plan)), environ={}) as runtime:
        await runtime.execute("hello")
    saved = load_session(runtime.folder)
    assert (await prepare_saved(saved, _options(home, project), adjust=without_stream)).warnings == ()
    [told] = (await prepare_saved(saved, _options(home, project))).warnings
    assert "use_streaming: False when the session was made, not set now" in told
    forced = await prepare_saved(saved, options, adjust=without_stream)
    assert not [line for line in forced.warnings if "use_streaming" in line]


async def test_what_was_chosen_for_one_session_is_no_difference(home: Home, project: Path) -> None:
    """The model and the priority that an option gave the provider need no note; other values of the bundle do."""
    prepared = await prepare(_options(home, project, bundle="./bundle.yaml"))
    [provider] = prepared.composed.plan["providers"]
    for chosen, notes in (({"default_model": "big", "priority": 0, "max_tokens": 9}, 0), ({"use_streaming": False}, 1)):
        plan = {**prepared.composed.plan, "providers": [{**provider, "config": {**provider["config"], **chosen}}]}
        made = replace(prepared, composed=replace(prepared.composed, plan=plan))
        async with SessionRuntime(made, environ={}) as runtime:
            await runtime.execute("hello")
        found = await prepare_saved(load_session(runtime.folder), _options(home, project))
        assert len(found.warnings) == notes


async def test_another_model_is_told_both_ways(home: Home, project: Path) -> None:
    """Who goes on with another model than the turn before is told, and so is who then goes on without that wish."""
    (project / "bundle.yaml").write_text(BUNDLE.replace("{responses", "{default_model: one, responses"))
    folder = await _session(_options(home, project, bundle="."))
    heard = []
    for model in (None, "two", "two", None, None):
        saved = load_session(folder)
        prepared = await prepare_saved(saved, _options(home, project))
        if model is not None:
            plan = json.loads(json.dumps(prepared.composed.plan))
            plan["providers"][0]["config"]["default_model"] = model
            prepared = replace(prepared, composed=replace(prepared.composed, plan=plan))
        async with SessionRuntime(prepared, saved=saved, environ={}) as runtime:
            heard.append(runtime.warnings)
            await runtime.execute("go on")
    one, two = "provider-mock/one", "provider-mock/two"
    assert heard[::2] == [(), (), ()]
    assert heard[1] == (f"model: {one} answered in the turn before, {two} answers now",)
    assert heard[3] == (f"model: {two} answered in the turn before, {one} answers now",)


async def test_a_folder_whose_name_is_no_text_is_found_again(home: Home, tmp_path: Path) -> None:
    """A session of a project with any bytes in its name, and a fork of it, go on in that project from anywhere."""
    project = tmp_path / os.fsdecode(b"pro\xffject")
    project.mkdir()
    (project / "bundle.yaml").write_text(BUNDLE)
    folder = await _session(_options(home, project, bundle="."))
    for saved in (load_session(folder), load_session(fork_session(folder).folder)):
        prepared = await prepare_saved(saved, _options(home, tmp_path))
        assert (saved.project, prepared.project, prepared.warnings) == (project, project, ())


async def test_another_context_file_of_the_same_name_is_told(home: Home, project: Path) -> None:
    """A name that stands for another file now is a difference; what was recorded is what the model is told."""
    for name in ("one.md", "two.md"):
        (project / name).write_text(name)
    (project / "bundle.yaml").write_text(BUNDLE + "context: {rules: one.md}\n")
    folder = await _session(_options(home, project, bundle="."))
    assert (await prepare_saved(load_session(folder), _options(home, project))).warnings == ()
    (project / "bundle.yaml").write_text(BUNDLE + "context: {rules: two.md}\n")
    prepared = await prepare_saved(load_session(folder), _options(home, project))
    before, now = project / "one.md", project / "two.md"
    assert prepared.warnings == (
        f"context: mine:rules was {before} when the session was made, is {now} now: the recorded one is used",
    )
    assert list(prepared.composed.context.values()) == [str(before)]


async def test_a_context_file_that_is_gone_is_told(home: Home, project: Path) -> None:
    """What the model was told before and is not told any more is a note, though the bundle says what it said."""
    (project / "rules.md").write_text("Rules.")
    (project / "bundle.yaml").write_text(BUNDLE + "context: {include: [rules.md]}\n")
    folder = await _session(_options(home, project, bundle="."))
    (project / "rules.md").unlink()
    prepared = await prepare_saved(load_session(folder), _options(home, project))
    assert prepared.warnings == (f"context: the file {project / 'rules.md'} no longer exists",)


@pytest.mark.parametrize("content", [None, b"{"])
async def test_without_record_and_bundle_the_way_on_is_told(home: Home, project: Path, content: bytes | None) -> None:
    """A session that has neither a record nor a known bundle names both reasons and how to go on all the same."""
    folder = await _session(_options(home, project, bundle="."))
    record = folder / "record.json"
    record.unlink() if content is None else record.write_bytes(content)
    saved = load_session(folder)
    with pytest.raises(BundleNotFoundError) as refused:
        await prepare_saved(saved, _options(home, project))
    said = str(refused.value)
    assert said.startswith("there is no bundle named 'mine': ")
    assert ("has no record" if content is None else f"{record}: the recorded plan cannot be read") in said
    assert f"`amplifier run --resume {folder.name} --bundle NAME`" in said
    with pytest.raises(BundleNotFoundError, match=r"^there is no bundle named 'yours': [^`]*$"):
        await prepare_saved(saved, _options(home, project, bundle="yours"))
    assert (await prepare_saved(saved, _options(home, project, bundle="."))).composed.name == "mine"
