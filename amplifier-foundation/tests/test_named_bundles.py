"""Bundles that nobody includes: named by settings, or by the user for one run."""

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.bundle import BundleNotFoundError
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, compose, prepare
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.sources.fetched import OfflineError

PART = "bundle: {name: part}\ntools: [{module: tool-todo}]\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a folder for its settings."""
    folder = tmp_path / "project"
    (folder / ".amplifier").mkdir(parents=True)
    return folder


def _options(home: Home, project: Path, **more: Any) -> Options:
    return Options(home, project, environ={"HOME": str(home.path)}, offline=True, **more)


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize(
    ("text", "line", "reference", "kind"),
    [
        ("# a\nbundle:\n  active: nosuch\n", 3, "nosuch", BundleNotFoundError),
        ("bundle:\n  app:\n    - amplifier:behaviors/todo\n    - nosuch\n", 4, "nosuch", BundleNotFoundError),
        ("bundle:\n  app: [amplifier:behaviors/tood]\n", 2, "amplifier:behaviors/tood", BundleNotFoundError),
        ("bundle: {active: git+https://h.example/o/r}\n", 1, "git+https://h.example/o/r", OfflineError),
    ],
)
async def test_a_setting_that_names_no_bundle(
    home: Home, project: Path, scope: str, text: str, line: int, reference: str, kind: type[FoundationError]
) -> None:
    """A bundle of the settings that cannot be had is an error with file and line of the words that name it."""
    file = home.settings if scope == "user" else project / ".amplifier" / "settings.yaml"
    file.write_text(text)
    with pytest.raises(kind) as refused:
        await compose(_options(home, project))
    assert str(refused.value).startswith(f"{file}:{line}: the bundle {reference!r} cannot be used: ")


async def test_the_scope_that_counts_is_named(home: Home, project: Path) -> None:
    """Of several files that name a bundle the one whose word counts is told, and none when the user names another."""
    home.settings.write_text("bundle: {active: minimal}\n")
    local = project / ".amplifier" / "settings.local.yaml"
    local.write_text("\nbundle: {active: nosuch}\n")
    with pytest.raises(BundleNotFoundError) as refused:
        await compose(_options(home, project))
    assert str(refused.value).startswith(f"{local}:2: ")
    with pytest.raises(BundleNotFoundError, match=r"^there is no bundle named 'other'"):
        await compose(_options(home, project, bundle="other"))


@pytest.mark.parametrize("way", ["--bundle", "bundle.active", "bundle.app"])
async def test_a_part_of_a_namespace(home: Home, project: Path, way: str) -> None:
    """`namespace:path` stands for a bundle outside of files too: of the product, and of a bundle that is known."""
    (home.bundles / "team" / "behaviors").mkdir(parents=True)
    (home.bundles / "team" / "bundle.yaml").write_text("bundle: {name: team}\nincludes: [minimal]\n")
    (home.bundles / "team" / "behaviors" / "part.yaml").write_text(PART)
    for reference in ("amplifier:behaviors/todo", "team:behaviors/part"):
        if way == "bundle.app":
            home.settings.write_text(f"bundle: {{active: minimal, app: ['{reference}']}}\n")
        elif way == "bundle.active":
            home.settings.write_text(f"bundle: {{active: '{reference}'}}\n")
        composition = await compose(_options(home, project, bundle=reference if way == "--bundle" else None))
        assert "tool-todo" in [tool["module"] for tool in composition.composed.plan["tools"]]
        assert composition.refusals == ()


async def test_a_part_of_a_namespace_of_the_project_needs_its_trust(home: Home, project: Path) -> None:
    """A namespace that a project's bundle brings is the project's word, also when the user says its name."""
    folder = project / ".amplifier" / "bundles" / "team"
    folder.mkdir(parents=True)
    (folder / "bundle.yaml").write_text("bundle: {name: team}\n")
    (folder / "part.yaml").write_text(PART.replace("tool-todo", "tool-x, source: git+https://h.example/o/r"))
    composition = await compose(_options(home, project, bundle="team:part"))
    assert [refusal.where for refusal in composition.refusals] == [f"{folder / 'part.yaml'}:2"]


@pytest.mark.parametrize(
    ("more", "lacking"),
    [
        ("", ["orchestrator", "context"]),
        ("session: {orchestrator: loop-basic}\n", ["context"]),
    ],
)
async def test_a_part_runs_with_the_loop_and_the_context_of_the_default_bundle(
    home: Home, project: Path, more: str, lacking: list[str]
) -> None:
    """What a bundle lacks to run by itself comes from the default bundle, and a note says so."""
    (project / "part.yaml").write_text(PART + more)
    prepared = await prepare(_options(home, project, bundle="./part"))
    session = prepared.composed.plan["session"]
    default = (await compose(_options(home, project, bundle="default"))).composed.plan["session"]
    assert {key: session[key] for key in lacking} == {key: default[key] for key in lacking}
    notes = [note for note in prepared.warnings if "not set in bundle 'part'" in note]
    assert [note.split(":")[0] for note in notes] == [f"session.{key}" for key in lacking]
    SessionRuntime(prepared, environ={})
