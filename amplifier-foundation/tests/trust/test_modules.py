"""Every module of a plan that does not come with the program is known, and who named it."""

import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, compose
from amplifier_foundation.sources.module_resolver import ModuleFolderError
from amplifier_foundation.trust.check import ModuleUse

BUNDLE = """\
bundle: {name: mine}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with a place for bundles."""
    home = Home(tmp_path / "home")
    home.bundles.mkdir(parents=True)
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a folder for Amplifier."""
    folder = tmp_path / "project"
    (folder / ".amplifier").mkdir(parents=True)
    return folder


async def _uses(home: Home, project: Path, **more: Any) -> dict[str, ModuleUse]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.path), **more.pop("environ", {})}
    composition = await compose(Options(home, project, environ=environ, **more))
    return {f"{use.section}:{use.module}": use for use in composition.composed.modules}


async def test_modules_are_found_wherever_a_plan_has_them(home: Home, project: Path) -> None:
    """Loop, context, lists, agents and what sub-agents get: each module with a source has its place and its line."""
    (home.bundles / "mine.yaml").write_text(
        "bundle: {name: mine}\n"
        "session:\n"
        "  orchestrator: loop-x\n"
        "  orchestrator_source: git+https://h/loop@main\n"
        "  context: {module: context-x, source: git+https://h/context@main}\n"
        "providers: [{module: p, id: one, source: git+https://h/p@main}, {module: p, id: two}]\n"
        "tools: [{module: t, source: git+https://h/t@main}]\n"
        "spawn: {tools: [{module: s, source: git+https://h/s@main}]}\n"
        "agents:\n"
        "  a.b:\n"
        "    description: d\n"
        "    instruction: i\n"
        "    hooks: [{module: h, source: git+https://h/h@main}]\n"
    )
    uses = await _uses(home, project, bundle="mine")
    file = home.bundles / "mine.yaml"
    assert {key: use.where for key, use in uses.items()} == {
        "session:loop-x": f"{file}:4",
        "session:context-x": f"{file}:5",
        "providers:p": f"{file}:6",
        "tools:t": f"{file}:7",
        "spawn.tools:s": f"{file}:8",
        "agents.a.b.hooks:h": f"{file}:13",
    }
    assert {(use.owner, use.named_by) for use in uses.values()} == {("user", "user")}


async def test_a_folder_counts_more_than_a_source(home: Home, project: Path, tmp_path: Path) -> None:
    """A variable, then the project's folder, then the home's: the first one there is takes the place of a source."""
    (home.bundles / "mine.yaml").write_text(BUNDLE + "tools: [{module: tool-t, source: 'git+https://h/t@main'}]\n")
    places = {
        "user": home.path / "modules" / "tool-t",
        "project": project / ".amplifier" / "modules" / "tool-t",
        "variable": tmp_path / "elsewhere",
    }
    for name, place in places.items():
        place.mkdir(parents=True)
        environ = {"AMPLIFIER_MODULE_TOOL_T": str(place)} if name == "variable" else {}
        use = (await _uses(home, project, bundle="mine", environ=environ))["tools:tool-t"]
        assert use.source == str(place)
        assert use.named_by == ("project" if name == "project" else "user")
    assert use.where == "$AMPLIFIER_MODULE_TOOL_T"
    with pytest.raises(ModuleFolderError, match="AMPLIFIER_MODULE_TOOL_T"):
        await _uses(home, project, bundle="mine", environ={"AMPLIFIER_MODULE_TOOL_T": str(tmp_path / "none")})


async def test_settings_decide_last(home: Home, project: Path) -> None:
    """A source that settings give is on the word of whose settings they are, in agents too."""
    agents = (
        "agents:\n  a:\n    description: d\n    instruction: i\n    tools: [{module: t, source: 'git+https://h/t'}]\n"
    )
    (home.bundles / "mine.yaml").write_text(BUNDLE + agents)
    settings = project / ".amplifier" / "settings.yaml"
    settings.write_text("overrides: {t: {source: 'git+https://other/t'}}\n")
    use = (await _uses(home, project, bundle="mine"))["agents.a.tools:t"]
    assert (use.source, use.named_by, use.where) == ("git+https://other/t", "project", f"{settings}:1")
    home.settings.write_text("overrides: {t: {source: 'git+https://mine/t'}}\n")
    settings.unlink()
    use = (await _uses(home, project, bundle="mine"))["agents.a.tools:t"]
    assert (use.source, use.named_by) == ("git+https://mine/t", "user")


async def test_a_source_named_twice_is_one_use(home: Home, project: Path) -> None:
    """The same module from the same place is fetched once, whoever else has it."""
    tool = "tools: [{module: t, source: 'git+https://h/t'}]\n"
    (home.bundles / "mine.yaml").write_text(
        BUNDLE + tool + f"agents:\n  a:\n    description: d\n    instruction: i\n    {tool}"
    )
    assert list(await _uses(home, project, bundle="mine")) == ["tools:t"]


async def test_packages_of_bundles_are_on_the_word_of_their_files(home: Home, project: Path) -> None:
    """A bundle with a Python package of its own brings code: a project's needs trust, the user's does not."""
    for folder in (home.bundles / "mine", project):
        folder.mkdir(exist_ok=True)
        (folder / "bundle.yaml").write_text(BUNDLE)
        (folder / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\n')
    mine = await compose(Options(home, project, bundle="mine", environ={}))
    assert [(use.section, use.named_by) for use in mine.composed.modules] == [("packages", "user")]
    assert mine.refusals == ()
    given = await compose(Options(home, project, bundle=".", environ={}))
    assert [refusal.what for refusal in given.refusals] == [f"packages: module 'project' from {project}"]


async def test_a_link_does_not_lead_out_of_distrust(home: Home, project: Path, tmp_path: Path) -> None:
    """Code that a project names through a link, or holds behind one, needs trust whichever way the link goes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / ".amplifier" / "modules").mkdir()
    (project / ".amplifier" / "modules" / "tool-out").symlink_to(outside)
    inside = project / "code"
    inside.mkdir()
    (tmp_path / "looks-outside").symlink_to(inside)
    (home.bundles / "mine.yaml").write_text(
        BUNDLE
        + f"tools: [{{module: tool-out}}, {{module: tool-in, source: '{tmp_path}/looks-outside'}},"
        + f" {{module: tool-uri, source: 'file://{tmp_path}/looks-outside'}}]\n"
    )
    composition = await compose(Options(home, project, bundle="mine", environ={}))
    refused = {refusal.what.split("'")[1] for refusal in composition.refusals}
    assert refused == {"tool-out"}
    home.bundles.rename(home.path / "elsewhere")
    (project / ".amplifier" / "bundles").symlink_to(home.path / "elsewhere")
    composition = await compose(Options(home, project, bundle="mine", environ={}))
    refused = {refusal.what.split("'")[1] for refusal in composition.refusals}
    assert refused == {"tool-out", "tool-in", "tool-uri"}, "a name that the project gives is the project's word"
