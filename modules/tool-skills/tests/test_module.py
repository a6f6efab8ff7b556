"""The module passes the tests of its kind, and says what it offers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests
from amplifier_module_tool_skills import mount


class TestStructure(ToolStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(ToolBehaviorTests):
    """It behaves as every tool must."""


async def test_the_events_are_announced_once(start: Any, coordinator: MockCoordinator, project: Path) -> None:
    """Both events are contributed, so that a log that looks for names finds them."""
    await start()
    assert await coordinator.collect_contributions("observability.events") == [["skills:discovered", "skill:loaded"]]


async def test_an_older_kernel_gets_the_list_of_events() -> None:
    """Where there are no contributors, the capability is extended and keeps what was in it."""

    class Older:
        def __init__(self) -> None:
            self.known: dict[str, Any] = {"observability.events": ["other:event"]}
            self.hooks = MockCoordinator().hooks
            self.register_capability = self.known.__setitem__
            self.get_capability = self.known.get
            self.config: dict[str, Any] = {}

        async def mount(self, point: str, module: Any, name: str) -> None:
            self.known[f"{point}:{name}"] = module

    coordinator = Older()
    await mount(coordinator)
    assert coordinator.known["observability.events"] == ["other:event", "skills:discovered", "skill:loaded"]
    assert (await coordinator.known["tools:load_skill"].execute({"list": True})).success


async def test_cleanup_takes_the_hook_away(coordinator: MockCoordinator, skill: Any, project: Path) -> None:
    """What mount returns ends the visibility; without it there is nothing to end."""
    skill(project / ".amplifier/skills", "one")
    clean_up = await mount(coordinator)
    assert (await coordinator.hooks.emit("provider:request", {})).action == "inject_context"
    clean_up()
    assert (await coordinator.hooks.emit("provider:request", {})).action == "continue"
    (await mount(coordinator, {"visibility": {"enabled": False}}))()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"skills_dirs": 5}, "'skills_dirs' must be a folder or a list of folders"),
        ({"skills": [""]}, "'skills' must be"),
        ({"visibility": "yes"}, "'visibility' must be a mapping"),
        ({"visibility": {"enabled": "yes"}}, "'visibility.enabled' must be true or false"),
        ({"visibility": {"max_skills_visible": -1}}, "'visibility.max_skills_visible' must be a whole number"),
        ({"visibility": {"placement": "top"}}, "'visibility.placement' must be one of request, prefix"),
        ({"visibility": {"priority": True}}, "'visibility.priority' must be a whole number"),
        ({"visibility": {"inject_role": "tool"}}, "'visibility.inject_role' must be one of"),
        ({"max_skill_bytes": 0}, "'max_skill_bytes' must be a whole number of at least 1"),
        ({"working_dir": 1}, "'working_dir' must be a path"),
    ],
)
async def test_a_wrong_key_is_named(coordinator: MockCoordinator, config: dict[str, Any], said: str) -> None:
    """A value of the wrong kind stops the mount with the key and what was expected."""
    with pytest.raises(ValueError, match=r"^tool-skills: config key") as caught:
        await mount(coordinator, config)
    assert said in str(caught.value)


async def test_unknown_keys_are_ignored_with_a_warning(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A bundle that is written for another version still runs, at both levels."""
    await start({"colour": 1, "visibility": {"ephemeral": True}})
    assert "'colour'" in caplog.text
    assert "'visibility.ephemeral'" in caplog.text
