"""What the model gets from the tool `mode`, in sessions with hooks-mode."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession

MODES = {
    "review": "---\nmode: {description: Comment only., tools: {safe: [read_file], block: [bash]}}\n---\nComment.\n",
    "strict": "---\nmode: {allowed_transitions: [review], allow_clear: false}\n---\n",
    "hidden": "---\nmode: {advertised: false}\n---\n",
}


class ModeRig:
    """A session with the tool and its events."""

    def __init__(self, session: AmplifierSession) -> None:
        self.coordinator: Any = session.coordinator
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.coordinator.hooks.register("*", lambda event, data: self.events.append((event, data)))

    async def call(self, operation: Any = None, name: Any = None) -> Any:
        given = {"operation": operation, "name": name}
        tool = self.coordinator.get("tools")["mode"]
        return await tool.execute({key: value for key, value in given.items() if value is not None})

    @property
    def active(self) -> Any:
        return self.coordinator.session_state["active_mode"]

    def emitted(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == event]


@pytest.fixture
def open_rig(scripted_session: Callable[..., AmplifierSession], tmp_path: Path) -> Any:
    """Give `async with open_rig(gate_policy, with_hooks=True) as rig`."""
    folder = tmp_path / "modes"
    folder.mkdir()
    for name, text in MODES.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")

    @asynccontextmanager
    async def open_(gate_policy: str = "auto", *, with_hooks: bool = True) -> AsyncIterator[ModeRig]:
        hooks = [{"module": "hooks-mode"}] if with_hooks else []
        session = scripted_session(
            "done", tools=[{"module": "tool-mode", "config": {"gate_policy": gate_policy}}], hooks=hooks
        )
        session.coordinator.register_capability("amplifier.home", str(tmp_path))
        session.coordinator.register_capability("session.working_dir", str(tmp_path / "project"))
        rig = ModeRig(session)
        async with session:
            yield rig

    return open_


async def test_set_and_current_and_clear(open_rig: Any) -> None:
    """A mode is activated, shown with its tools, and left; each result has the documented keys."""
    async with open_rig() as rig:
        assert (await rig.call("current")).output == {"active_mode": None}
        done = (await rig.call("set", "review")).output
        assert done.pop("note")
        assert done == {
            "status": "activated",
            "mode": "review",
            "description": "Comment only.",
            "safe_tools": ["read_file"],
            "restricted_tools": ["bash"],
            "default_action": "block",
        }
        assert (await rig.call("current")).output == {
            "active_mode": "review",
            "description": "Comment only.",
            "safe_tools": ["read_file"],
            "warn_tools": [],
            "confirm_tools": [],
            "block_tools": ["bash"],
            "default_action": "block",
        }
        left = (await rig.call("clear")).output
        assert left == {"status": "cleared", "previous_mode": "review", "message": "The mode review is off."}
        assert rig.active is None
        assert (await rig.call("clear")).output["previous_mode"] is None
    assert [data["mode"] for data in rig.emitted("mode:activated")] == ["review"]
    assert [data["previous_mode"] for data in rig.emitted("mode:cleared")] == ["review"]


async def test_list_leaves_out_what_is_not_advertised(open_rig: Any) -> None:
    """The list has name, description and source of the advertised modes."""
    async with open_rig() as rig:
        listed = (await rig.call("list")).output
    assert listed["active_mode"] is None
    assert {"name": "review", "description": "Comment only.", "source": "user"} in listed["modes"]
    assert [mode["name"] for mode in listed["modes"]] == ["review", "strict", "careful", "explore", "plan"]


async def test_a_second_set_passes_the_warning_gate(open_rig: Any) -> None:
    """With `warn`, the first try is denied with what to tell the user, and the second one changes the mode."""
    async with open_rig("warn") as rig:
        denied = await rig.call("set", "review")
        assert denied.success is False
        assert denied.output["status"] == "denied"
        assert denied.output["denied_mode"] == "review"
        assert "/mode review" in denied.output["user_instruction"]
        assert rig.active is None
        assert (await rig.call("set", "review")).output["status"] == "activated"
        left = await rig.call("clear")
        assert left.output["status"] == "denied"
        assert "denied_mode" not in left.output
        assert (await rig.call("clear")).output["status"] == "cleared"
        assert (await rig.call("set", "review")).output["status"] == "denied"
    first = rig.emitted("mode:activation_gated")[0]
    assert (first["gate_policy"], first["target_mode"], first["from_mode"]) == ("warn", "review", None)


async def test_confirm_leaves_every_change_to_the_user(open_rig: Any) -> None:
    """With `confirm`, the model can never change the mode."""
    async with open_rig("confirm") as rig:
        for _ in range(3):
            assert (await rig.call("set", "review")).output["status"] == "denied"
        assert rig.active is None


async def test_transitions_are_limited(open_rig: Any) -> None:
    """A mode that only some may follow, and that only the user may leave, is kept."""
    async with open_rig() as rig:
        await rig.call("set", "strict")
        assert (await rig.call("set", "plan")).error["code"] == "transition_denied"
        assert (await rig.call("clear")).error["code"] == "clear_denied"
        assert rig.active == "strict"
        assert (await rig.call("set", "review")).output["status"] == "activated"
    assert [(data["from_mode"], data["to_mode"]) for data in rig.emitted("mode:transition_denied")] == [
        ("strict", "plan"),
        ("strict", None),
    ]
    assert [data["to_mode"] for data in rig.emitted("mode:changed")] == ["review"]


@pytest.mark.parametrize(
    ("operation", "name", "code"),
    [
        (None, None, "invalid_operation"),
        ("turn", None, "invalid_operation"),
        (["set"], None, "invalid_operation"),
        ("set", None, "missing_name"),
        ("set", " ", "missing_name"),
        ("set", 3, "missing_name"),
        ("set", "gone", "mode_not_found"),
    ],
)
async def test_wrong_input_is_named(open_rig: Any, operation: Any, name: Any, code: str) -> None:
    """What is wrong with a call has a stable code, and changes nothing."""
    async with open_rig() as rig:
        result = await rig.call(operation, name)
        assert (result.success, result.error["code"]) == (False, code)
        assert rig.active is None


async def test_without_hooks_mode_there_are_no_modes(open_rig: Any) -> None:
    """A session whose bundle has the tool alone says what it lacks."""
    async with open_rig(with_hooks=False) as rig:
        assert (await rig.call("list")).error["code"] == "hooks_mode_not_mounted"


async def test_the_mode_that_the_model_sets_holds(
    scripted_session: Callable[..., AmplifierSession], tmp_path: Path, requests_of: Callable[[Any], Any]
) -> None:
    """In one turn the model activates a mode, and its next call is denied by it."""
    from amplifier_testing.loop.fakes import PlainTool

    bash = PlainTool("bash")
    session = scripted_session(
        [("mode", {"operation": "set", "name": "explore"})],
        [("bash", {})],
        "done",
        tools=[{"module": "tool-mode", "config": {"gate_policy": "auto"}}],
        hooks=[{"module": "hooks-mode"}],
        mounted=[bash],
    )
    session.coordinator.register_policy("test", lambda action, details: "allow")
    session.coordinator.register_capability("amplifier.home", str(tmp_path))
    async with session:
        await session.execute("go")
        assert "Mode 'explore': 'bash' is not in the allowed list." in str(requests_of(session)[2])
        assert "MODE ACTIVE: explore" in str(requests_of(session)[1])
    assert bash.inputs == []


@pytest.mark.parametrize("call", [{"operation": "clear"}, {"operation": "set", "name": "review"}])
async def test_the_model_does_not_leave_a_mode_of_the_user(
    scripted_session: Callable[..., AmplifierSession], tmp_path: Path, call: dict[str, Any]
) -> None:
    """However often it tries, that is asked about by itself; a mode that it chose, it may leave."""
    (tmp_path / "modes").mkdir()
    (tmp_path / "modes" / "review.md").write_text(MODES["review"], encoding="utf-8")
    session = scripted_session(
        [("mode", call), ("mode", call)],
        [("mode", call)],
        "done",
        tools=[{"module": "tool-mode"}],
        hooks=[{"module": "hooks-mode"}],
    )
    coordinator: Any = session.coordinator
    asked: list[str] = []

    def judge(action: str, details: Any) -> str:
        asked.append(action)
        return "allow" if action == "tool.mode" else "deny"

    coordinator.register_policy("test", judge)
    coordinator.register_capability("amplifier.home", str(tmp_path))
    async with session:
        tool = coordinator.get("tools")["mode"]
        assert tool.action_for(call) == "tool.mode"
        coordinator.session_state["active_mode"] = "plan"
        await session.execute("go")
        assert coordinator.session_state["active_mode"] == "plan"
        assert set(asked) == {"tool.mode_of_user"}
        assert (await tool.execute(call)).success  # once it is allowed, there is no second gate
        assert tool.action_for({"operation": "clear"}) == "tool.mode"
        assert tool.action_for({"operation": "list"}) == "tool.mode"


async def test_a_mode_that_the_user_chooses_again_is_the_users(open_rig: Any) -> None:
    """That the model chose the same one before does not count."""
    from amplifier_kit.modes import activate, clear

    async with open_rig() as rig:
        tool = rig.coordinator.get("tools")["mode"]
        await rig.call("set", "review")
        assert tool.action_for({"operation": "clear"}) == "tool.mode"
        await clear(rig.coordinator)
        await activate(rig.coordinator, rig.coordinator.session_state["mode_discovery"].find("review"))
        assert tool.action_for({"operation": "clear"}) == "tool.mode_of_user"
