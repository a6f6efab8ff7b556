"""Forms that published bundles and agents have, beside those that ours have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.agent_file import load_agent_file
from amplifier_foundation.bundles.bundle import BundleError
from amplifier_foundation.bundles.loader import BundleLoader
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, compose
from amplifier_foundation.sources.fetched import NotLockedError
from amplifier_foundation.sources.fetcher import Fetcher


@pytest.fixture
def upstream(tmp_path: Path) -> str:
    """Return the address of a repository with a bundle, a behavior and context files."""
    folder = tmp_path / "upstream"
    for name, text in {
        "bundle.md": "---\nbundle: {name: lib}\n---\n",
        "behaviors/web.yaml": "bundle: {name: web}\ntools: [{module: tool-web}]\n",
        "context/rules.md": "Rules of the library.\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for arguments in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all"),
        ("-c", "user.name=t", "-c", "user.email=t@e", "commit", "--quiet", "--message=x"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return f"git+file://{folder}@main"


async def test_a_behavior_is_composed_like_a_bundle(place: Any) -> None:
    """`- behavior: ./x.yaml` brings what is in the file, with a notice."""
    place.write("project/a.yaml", "includes:\n  - behavior: ./x.yaml\n")
    place.write("project/x.yaml", "tools: [{module: tool-web}]\n")
    bundle = await place.loader().load("./a.yaml")
    assert bundle.tools == [{"module": "tool-web"}]
    assert any("a.yaml:2: includes[0]: 'behavior' is read as 'bundle'" in text for text in bundle.warnings)
    place.write("project/b.yaml", "includes:\n  - behavior: 3\n")
    with pytest.raises(BundleError, match=r"b\.yaml:2: 'includes\[0\]\.behavior' must be text"):
        await place.loader().load("./b.yaml")


async def test_a_path_in_an_address_is_its_subdirectory(place: Any, upstream: str, tmp_path: Path) -> None:
    """`#path=` in includes and in context means the part of the source, with a notice for each."""
    place.write(
        "project/a.yaml",
        f"bundle: {{name: a}}\nincludes: ['{upstream}#path=behaviors/web.yaml']\n"
        f"context:\n  include: ['{upstream}#path=context/rules.md']\n  style: '{upstream}#subdirectory=bundle.md'\n",
    )
    bundle = await BundleLoader(Fetcher(place.home), place.registry(), place.home, place.project).load("./a.yaml")
    assert bundle.tools == [{"module": "tool-web"}]
    rules, style = bundle.context.values()
    assert rules.read_text() == "Rules of the library.\n"
    assert style.name == "bundle.md"
    assert list(bundle.context)[1] == "style"
    notices = [text for text in bundle.warnings if "'#path=' is read as '#subdirectory='" in text]
    assert [notice.rpartition("a.yaml:")[2][0] for notice in notices] == ["2", "4"]
    shutil.rmtree(tmp_path / "upstream")  # what is in the cache is enough
    assert (await place.loader().load("./a.yaml")).context == bundle.context


async def test_context_that_cannot_be_fetched_is_left_out(place: Any, tmp_path: Path) -> None:
    """A context file that a server does not give is a warning with its line, unless a lock forbids to go on."""
    address = f"git+file://{tmp_path / 'gone'}@main#path=f.md"
    place.write("project/a.yaml", f"bundle: {{name: a}}\ncontext: {{include: ['{address}']}}\n")
    loader = BundleLoader(Fetcher(place.home), place.registry(), place.home, place.project)
    bundle = await loader.load("./a.yaml")
    assert bundle.context == {}
    assert any("a.yaml:2: the context file" in text and "is left out" in text for text in bundle.warnings)
    locked = BundleLoader(Fetcher(place.home, locked=True), place.registry(), place.home, place.project)
    with pytest.raises(NotLockedError, match=r"a\.yaml:2"):
        await locked.load("./a.yaml")


async def test_fetched_context_is_in_the_prompt(place: Any, upstream: str, tmp_path: Path) -> None:
    """What a context address leads to is given to the model like any other context file."""
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime

    bundles = place.home.bundles
    bundles.mkdir(parents=True)
    (bundles / "a.yaml").write_text(
        "bundle: {name: a}\nsession: {orchestrator: loop-basic, context: context-simple}\n"
        "providers: [{module: provider-mock, config: {responses: [Hi.]}}]\n"
        f"context: {{include: ['{upstream}#path=context/rules.md']}}\n"
    )
    composition = await compose(Options(place.home, place.project, bundle="a"))
    prepared = Prepared(composition.composed, place.home, place.project, layers=composition.layers)
    async with SessionRuntime(prepared, environ={}) as runtime:
        assert "Rules of the library." in await runtime.prompt()


AGENT = """\
---
meta:
  name: explorer
  description: Finds things.
  model_role: [coding, general]
  owner: team
provider_preferences:
  - {provider: anthropic, model: claude-haiku-*, config: {effort: low}}
tools:
  - {module: tool-search, source: 'git+https://example.invalid/x@main', config: {limit: 3}}
hooks: [{module: hooks-logging, source: 'git+https://example.invalid/h@main'}]
providers: [{module: provider-mock}]
session: {orchestrator: {config: {max_iterations: 3}}}
agents: none
tags: [search]
---
You explore.
"""


def test_an_agent_has_the_published_keys(tmp_path: Path) -> None:
    """A list of roles, sources of modules, preferences with config, and keys of the author's own all load."""
    path = tmp_path / "explorer.md"
    path.write_text(AGENT)
    warnings: list[str] = []
    agent = load_agent_file(path, "user", warnings)
    assert agent["model_role"] == ["coding", "general"]
    assert agent["provider_preferences"][0]["config"] == {"effort": "low"}
    assert agent["tools"][0]["source"] == "git+https://example.invalid/x@main"
    assert agent["meta"] == {"owner": "team"}
    assert agent["instruction"] == "You explore."
    (warning,) = warnings
    assert warning.startswith(f"{path}:15: unknown key 'tags'")


async def test_an_inline_agent_may_say_its_instruction_under_system(place: Any) -> None:
    """`system.instruction` is the older form of `instruction`; modules of agents are activated with the bundle."""
    place.home.bundles.mkdir(parents=True)
    (place.home.bundles / "a.yaml").write_text(
        "bundle: {name: a}\nagents:\n  helper:\n    description: Helps.\n    system: {instruction: You help.}\n"
        "    tools: [{module: tool-x, source: ./tool-x}]\n"
    )
    (place.home.bundles / "tool-x").mkdir()
    composed = (await compose(Options(Home(place.home.path), place.project, bundle="a"))).composed
    assert composed.plan["agents"]["helper"]["instruction"] == "You help."
    assert "system" not in composed.plan["agents"]["helper"]
    assert ("agents.helper.tools", "tool-x") in [(use.section, use.module) for use in composed.modules]
