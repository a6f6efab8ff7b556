"""The module mounts, reads its config, keeps its sessions apart, and says what its calls do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import ConfigError
from amplifier_module_tool_recipes import mount

STEP = "steps: [{id: a, type: bash, command: 'true'}]"


@pytest.mark.parametrize("config", [{"auto_cleanup_days": -1}, {"session_dir": 3}])
async def test_wrong_config_is_refused(config: dict[str, Any]) -> None:
    """The error names the key."""
    with pytest.raises(ConfigError, match=next(iter(config))):
        await mount(MockCoordinator(), config)


async def test_actions_of_calls(world: Any) -> None:
    """Rules can tell reading, deciding and running apart."""
    tool = world.session.coordinator.get("tools")["recipes"]
    actions = {name: tool.action_for({"operation": name}) for name in ("list", "approve", "deny", "execute", "x")}
    assert actions == {
        "list": "tool.recipes_read",
        "approve": "tool.recipes_approve",
        "deny": "tool.recipes_approve",
        "execute": "tool.recipes",
        "x": "tool.recipes",
    }


@pytest.mark.parametrize(
    ("operation", "given", "code"),
    [
        ("start", {}, "invalid_input"),
        ("execute", {}, "invalid_input"),
        ("execute", {"recipe_path": "work.yaml", "context": [1]}, "invalid_input"),
        ("execute", {"recipe_path": "missing.yaml"}, "recipe_unreadable"),
        ("execute", {"recipe_path": "@team:missing.yaml"}, "recipe_unreadable"),
        ("resume", {"session_id": "../../etc"}, "unknown_session"),
        ("resume", {"session_id": f"{'0' * 16}-20260101-000000_recipe"}, "unknown_session"),
        ("cancel", {"session_id": "x"}, "unknown_session"),
    ],
)
async def test_wrong_input_is_a_result(world: Any, operation: str, given: dict[str, Any], code: str) -> None:
    """No exception: the result says what is wrong."""
    assert (await world.call(operation, **given))["code"] == code


async def test_validate_runs_nothing(world: Any) -> None:
    """It returns name, version and warnings, or every mistake."""
    world.write("steps: [{id: a, type: bash, command: 'touch {{x}}'}]")
    assert await world.call("validate", recipe_path="work.yaml") == {
        "status": "valid",
        "recipe": "work",
        "version": "1.0.0",
        "warnings": ["step 'a': {{x}} must be given in context"],
    }
    world.write("steps: [{id: a, type: bash}]")
    wrong = await world.call("validate", recipe_path="work.yaml")
    assert wrong["message"] == "Recipe validation failed"
    assert wrong["errors"] == ["work.yaml: step 'a': command is missing for type bash"]
    assert (await world.call("list"))["count"] == 0


async def test_recipes_outside_need_permission(world: Any) -> None:
    """The policy is asked for the file before it is read."""
    world.verdicts["filesystem.read"] = "deny"
    world.write(STEP)
    assert (await world.call("validate", recipe_path="work.yaml"))["code"] == "denied"
    [details] = [details for action, details in world.asked if action == "filesystem.read"]
    assert details["path"] == str(world.project / "work.yaml")


async def test_recipes_of_bundles(world: Any) -> None:
    """`@namespace:path` is resolved by the app, and a sub-recipe beside it is found."""
    folder = world.project.parent / "bundle"
    folder.mkdir()
    world.verdicts["filesystem.read"] = "deny"
    (folder / "r.yaml").write_text(
        "name: r\ndescription: d\nversion: 1.0.0\n"
        "steps: [{id: a, type: recipe, recipe: ./s.yaml, output: final_output}]"
    )
    (folder / "s.yaml").write_text(
        "name: s\ndescription: d\nversion: 1.0.0\nsteps: [{id: a, type: bash, command: echo hi, output: said}]"
    )

    class Resolver:
        def resolve(self, mention: str) -> Path | None:
            return folder / mention.partition(":")[2] if mention.startswith("@team:") else None

    world.session.coordinator.register_capability("mention_resolver", Resolver())
    done = await world.call("execute", recipe_path="@team:r.yaml")
    assert done["summary"]["final_output"] == {"said": "hi"}


async def test_the_layout_on_disk(world: Any, tmp_path: Path) -> None:
    """A session is `recipe.yaml` and `state.json`, for the owner alone, in the folder of the project."""
    done = await world.run(STEP)
    folder = tmp_path / "sessions" / str(world.project).replace("/", "-").removeprefix("-") / "recipe-sessions"
    assert sorted(path.name for path in (folder / done["session_id"]).iterdir()) == ["recipe.yaml", "state.json"]
    assert (folder / done["session_id"] / "recipe.yaml").read_text() == (world.project / "work.yaml").read_text()
    assert (folder / done["session_id"] / "state.json").stat().st_mode & 0o077 == 0


async def test_old_sessions_are_removed(world: Any, tmp_path: Path) -> None:
    """A new run removes what nothing has changed for a week, except what waits for approval."""
    old = (await world.run(STEP))["session_id"]
    stages = "stages: [{name: s, approval: {required: true}, steps: [{id: a, type: bash, command: 'true'}]}]"
    waiting = (await world.run(stages))["session_id"]
    for path in (tmp_path / "sessions").rglob("state.json"):
        os.utime(path, (1, 1))
    new = (await world.run(STEP))["session_id"]
    left = {session["session_id"] for session in (await world.call("list"))["sessions"]}
    assert left == {waiting, new}
    assert old not in left


async def test_long_results_are_cut(world: Any) -> None:
    """The model gets the beginning; the state has all of it."""
    done = await world.run("steps: [{id: a, type: bash, command: 'printf %020000d 0 | tr 0 x', output: final_output}]")
    shown = done["summary"]["final_output"]
    assert "[cut: the result has 20000 characters" in shown
    assert len(shown) < 11_000
    assert len(world.state(done["session_id"])["context"]["final_output"]) == 20_000


async def test_a_model_runs_a_recipe(scripted_session: Any, tmp_path: Path) -> None:
    """Called by a model in a turn, the tool runs and its result is the next message: nothing comes between."""
    (tmp_path / "r.yaml").write_text(
        "name: r\ndescription: d\nversion: 1.0.0\nsteps: [{id: a, type: bash, command: echo hi, output: final_output}]"
    )
    tools = [{"module": "tool-bash"}, {"module": "tool-recipes", "config": {"session_dir": str(tmp_path / "s")}}]
    call = [("recipes", {"operation": "execute", "recipe_path": "r.yaml"})]
    session = scripted_session(call, "done", tools=tools)
    session.coordinator.register_capability("session.working_dir", str(tmp_path))
    session.coordinator.register_policy("all", lambda action, details: "allow")

    def inject(event: str, data: dict[str, Any]) -> Any:
        from amplifier_core import HookResult

        return HookResult(action="inject_context", context_injection="by the way")

    async with session:
        session.coordinator.hooks.register("tool:post", inject)
        assert await session.execute("go") == "done"
        messages = await session.coordinator.get("context").get_messages()
    assert [message["role"] for message in messages][:3] == ["user", "assistant", "tool"]
    assert '"final_output": "hi"' in messages[2]["content"]
