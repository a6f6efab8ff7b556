"""Where skills are looked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator


def sources(coordinator: MockCoordinator) -> list[str]:
    """Return the folders that are searched."""
    found: list[str] = coordinator.get_capability("skills_discovery").sources
    return found


async def test_the_default_folders(
    start: Any, coordinator: MockCoordinator, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable comes first, then the project, then the user."""
    monkeypatch.setenv("AMPLIFIER_SKILLS_DIR", f"{tmp_path / 'one'}:~/two")
    await start()
    home = tmp_path / "home"
    assert sources(coordinator) == [
        str(path)
        for path in (
            tmp_path / "one",
            home / "two",
            project / ".amplifier/skills",
            project / ".agents/skills",
            project / ".claude/skills",
            home / ".amplifier/skills",
            home / ".agents/skills",
        )
    ]


async def test_the_apps_home_and_the_sessions_directory_count(
    start: Any, coordinator: MockCoordinator, tmp_path: Path
) -> None:
    """Both are capabilities that the app registers."""
    coordinator.register_capability("amplifier.home", tmp_path / "settings")
    coordinator.register_capability("session.working_dir", str(tmp_path / "work"))
    await start()
    assert str(tmp_path / "settings/skills") in sources(coordinator)
    assert sources(coordinator)[0] == str(tmp_path / "work/.amplifier/skills")


@pytest.mark.parametrize("key", ["skills_dirs", "skills_dir"])
async def test_the_config_takes_the_place_of_the_defaults(
    start: Any, coordinator: MockCoordinator, project: Path, key: str
) -> None:
    """Configured folders are the only ones, from the working directory; one may be given as text."""
    coordinator.config["skills"] = {"dirs": ["other"]}
    await start({key: "mine", "working_dir": str(project / "sub")})
    assert sources(coordinator) == [str(project / "sub/mine")]


async def test_the_plan_takes_the_place_of_the_defaults(
    start: Any, coordinator: MockCoordinator, project: Path
) -> None:
    """`skills.dirs` of the mount plan counts when the config names none; `skills` adds to it."""
    coordinator.config["skills"] = {"dirs": ["plan", "plan"]}
    await start({"skills": ["more", "file:///else/where"]})
    assert sources(coordinator) == [str(project / "plan"), str(project / "more"), "/else/where"]


async def test_a_plan_that_makes_no_sense_is_reported(start: Any, coordinator: MockCoordinator) -> None:
    """The defaults are searched then, and the problem is listed."""
    coordinator.config["skills"] = {"dirs": {"a": 1}}
    output = (await (await start()).execute({"list": True})).output
    assert "skills of the plan: config key 'dirs'" in output["problems"][0]
    assert len(sources(coordinator)) == 5


async def test_a_bundles_folder_is_named_by_mention(
    start: Any, coordinator: MockCoordinator, skill: Any, tmp_path: Path
) -> None:
    """`@bundle:path` goes to the mention resolver; what leads nowhere is reported and hides nothing."""
    skill(tmp_path / "bundle/skills", "theirs")
    known = {"@mine:skills": tmp_path / "bundle/skills"}
    coordinator.register_capability("mention_resolver", SimpleNamespace(resolve=known.get))
    output = (await (await start({"skills": ["@gone:skills", "@mine:skills"]})).execute({"list": True})).output
    assert [one["name"] for one in output["skills"]] == ["theirs"]
    assert output["problems"] == ["skills of @gone:skills are missing: it does not lead to a folder"]


async def test_without_a_resolver_a_mention_is_reported(start: Any) -> None:
    """The missing capability is named."""
    output = (await (await start({"skills": ["@mine:skills"]})).execute({"list": True})).output
    assert "mention_resolver" in output["problems"][0]


async def test_an_address_is_left_to_whoever_fetches(
    start: Any, coordinator: MockCoordinator, skill: Any, tmp_path: Path
) -> None:
    """Without that capability the address is reported; with it, its folder is searched."""
    address = "git+https://example.com/skills@main"
    output = (await (await start({"skills": [address]})).execute({"list": True})).output
    assert address in output["problems"][0]
    assert "skills.resolve_source" in output["problems"][0]
    skill(tmp_path / "fetched", "far")

    async def resolve(uri: str) -> Path | None:
        return tmp_path / "fetched" if uri == address else None

    coordinator.register_capability("skills.resolve_source", resolve)
    output = (await (await start({"skills": [address]})).execute({"list": True})).output
    assert [one["name"] for one in output["skills"]] == ["far"]
