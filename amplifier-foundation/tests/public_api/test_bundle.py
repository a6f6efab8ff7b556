"""Bundles as objects: made inline or loaded, composed, looked up."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation import Bundle, BundleValidationError, load_bundle, validate_bundle
from amplifier_foundation.bundle import Origin


def test_a_bundle_has_the_published_defaults() -> None:
    """Only the name is needed; everything else is empty."""
    bundle = Bundle("helper")
    assert (bundle.version, bundle.description, bundle.instruction, bundle.base_path) == ("1.0.0", "", None, None)
    assert bundle.to_mount_plan() == {}
    assert bundle.get_system_instruction() is None
    assert validate_bundle(bundle).valid


def test_composing_merges_by_the_rules_of_bundles() -> None:
    """Modules merge by id, sessions key by key, later names win; none of the bundles is changed."""
    base = Bundle(
        name="base",
        version="1.2.0",
        session={"orchestrator": {"module": "loop-basic", "config": {"max_iterations": 3}}},
        tools=[{"module": "tool-bash", "config": {"timeout": 5}}, {"module": "tool-web"}],
        instruction="You help.",
    )
    over = Bundle(
        name="over",
        session={"orchestrator": {"config": {"reasoning_effort": "high"}}},
        tools=[{"module": "tool-bash", "config": {"timeout": 9}}],
    )
    composed = base.compose(over)
    assert (composed.name, composed.version, composed.instruction) == ("over", "1.0.0", "You help.")
    assert composed.to_mount_plan() == {
        "session": {
            "orchestrator": {"module": "loop-basic", "config": {"max_iterations": 3, "reasoning_effort": "high"}}
        },
        "tools": [{"module": "tool-bash", "config": {"timeout": 9}}, {"module": "tool-web"}],
    }
    assert base.tools[0]["config"] == {"timeout": 5}
    assert composed.origins["tools:tool-bash"] == [Origin("base"), Origin("over")]
    assert base.compose().name == "base"


def test_the_context_of_composed_bundles_keeps_apart(tmp_path: Path) -> None:
    """A context file without a namespace gets the one of its bundle, so that two bundles may use one name."""
    one = Bundle("one", context={"rules": tmp_path / "1.md"}, base_path=tmp_path)
    two = Bundle("two", context={"rules": tmp_path / "2.md"})
    composed = one.compose(two)
    assert composed.context == {"one:rules": tmp_path / "1.md", "two:rules": tmp_path / "2.md"}
    assert composed.resolve_context_path("rules") == tmp_path / "2.md"
    assert composed.resolve_context_path("one:rules") == tmp_path / "1.md"
    assert composed.source_base_paths["one"] == tmp_path


def test_a_mapping_becomes_a_bundle(tmp_path: Path) -> None:
    """`from_dict` reads the form of a bundle file; relative paths start at the folder it is given."""
    (tmp_path / "tool").mkdir()
    bundle = Bundle.from_dict(
        {
            "bundle": {"name": "team", "version": "2.0.0", "description": "Ours."},
            "includes": [{"bundle": "foundation"}],
            "tools": [{"module": "tool-x", "source": "./tool"}],
            "agents": {"include": ["explorer"], "helper": {"description": "Helps."}},
            "context": {"include": ["notes.md", "other:rules.md"], "style": "docs/style.md"},
            "unknown": 1,
        },
        tmp_path,
    )
    assert (bundle.name, bundle.version, bundle.description) == ("team", "2.0.0", "Ours.")
    assert bundle.includes == [{"bundle": "foundation"}]
    assert bundle.tools == [{"module": "tool-x", "source": str(tmp_path / "tool")}]
    assert bundle.agents == {"explorer": {}, "helper": {"description": "Helps."}}
    assert bundle.context == {"notes.md": tmp_path / "notes.md", "style": tmp_path / "docs" / "style.md"}
    assert bundle._pending_context == {"other:rules.md": "other:rules.md"}
    bundle.source_base_paths["other"] = tmp_path / "other"
    bundle.resolve_pending_context()
    assert bundle.context["other:rules.md"] == tmp_path / "other" / "rules.md"
    assert bundle._pending_context == {}


def test_malformed_modules_are_named() -> None:
    """A list of modules that is none, or has something else in it, is an error in the published words."""
    form = "\nCorrect format: tools: [{module: 'module-id', source: 'git+https://...'}]"
    with pytest.raises(BundleValidationError) as error:
        Bundle.from_dict({"bundle": {"name": "b"}, "tools": ["bash"]})
    text = "Bundle 'b' has malformed tools[0]: expected dict with 'module' and 'source' keys, got str 'bash'."
    assert str(error.value) == text + form
    with pytest.raises(BundleValidationError) as error:
        Bundle.from_dict({"bundle": {"name": "b"}, "tools": {"bash": {}}})
    assert str(error.value) == "Bundle 'b' has malformed tools: expected list, got dict." + form


def test_agents_are_found_and_read(tmp_path: Path) -> None:
    """An agent's file is below `agents/`; what is written inline counts more than the file."""
    (tmp_path / "agents").mkdir()
    file = tmp_path / "agents" / "explorer.md"
    file.write_text("---\nmeta: {name: explorer, description: Finds.}\nmodel_role: fast\n---\nYou explore.\n")
    bundle = Bundle("team", base_path=tmp_path, agents={"explorer": {"model_role": "general"}, "team:explorer": {}})
    assert bundle.resolve_agent_path("explorer") == bundle.resolve_agent_path("team:explorer") == file
    assert bundle.resolve_agent_path("../explorer") is None
    assert bundle.resolve_agent_path("other:explorer") is None
    bundle.load_agent_metadata()
    assert bundle.agents["explorer"]["description"] == "Finds."
    assert bundle.agents["explorer"]["model_role"] == "general"
    assert bundle.agents["team:explorer"]["instruction"] == "You explore."


def test_mistakes_in_mode_files_are_warnings(tmp_path: Path) -> None:
    """Modes are checked with file and line; a bundle without a folder has none."""
    modes = tmp_path / "modes"
    modes.mkdir()
    (modes / "good.md").write_text("---\nmode: {name: good, tools: {safe: [read_file]}}\n---\nRead.\n")
    (modes / "bad.md").write_text("---\nmode:\n  name: bad\n  default_action: maybe\n---\nRead.\n")
    (modes / "none.md").write_text("Only text.\n")
    (modes / "slip.md").write_text("---\nmode:\n  tools: {save: [bash]}\n  contributes:\n    skills: x\n---\nRead.\n")
    warnings = Bundle("team", base_path=tmp_path).validate_modes()
    assert warnings == [
        f"{modes / 'bad.md'}:4: config key 'default_action' must be one of block, allow, got 'maybe'",
        f"{modes / 'none.md'}:1: the file describes no mode: it has no 'mode'",
        f"{modes / 'slip.md'}:3: unknown config key 'tools.save': did you mean 'tools.safe'?",
        f"{modes / 'slip.md'}:5: config key 'contributes.skills' must be a list, got 'x'",
    ]
    assert Bundle("team").validate_modes() == []


async def test_a_loaded_bundle_is_composed_with_what_it_includes(app_home: Path, tmp_path: Path) -> None:
    """`load_bundle` takes a path, follows includes, and says which bundle brought what."""
    folder = tmp_path / "team"
    (folder / "behaviors").mkdir(parents=True)
    (folder / "behaviors" / "web.yaml").write_text(
        "bundle: {name: web}\ntools: [{module: tool-web}]\ncontext: {include: [team:context/web.md]}\n"
    )
    (folder / "context").mkdir()
    (folder / "context" / "web.md").write_text("Browse.\n")
    (folder / "bundle.md").write_text(
        "---\nbundle: {name: team, version: 0.3.0}\nincludes: [{bundle: team:behaviors/web}]\n"
        "tools: [{module: tool-bash}]\n---\nYou help the team.\n"
    )
    bundle = await load_bundle(folder)
    assert (bundle.name, bundle.version, bundle.instruction) == ("team", "0.3.0", "You help the team.")
    assert [one["module"] for one in bundle.tools] == ["tool-web", "tool-bash"]
    assert bundle.includes == [{"bundle": "team:behaviors/web"}]
    assert bundle.context == {"team:context/web.md": folder / "context" / "web.md"}
    assert bundle.origins["tools:tool-web"] == [Origin("web", "web")]
    assert bundle.origins["tools:tool-bash"] == [Origin("team")]
    alone = await load_bundle(str(folder / "bundle.md"), auto_include=False)
    assert [one["module"] for one in alone.tools] == ["tool-bash"]
    assert (await load_bundle("minimal")).name == "minimal"
