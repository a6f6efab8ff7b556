"""The sandbox of a child is at least as tight as its parent's, whichever instance of a tool it uses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.children.plan import child_plan
from amplifier_kit.guard.sandbox.config import SandboxConfig

_MODES = ("off", "auto", "required")
_SANDBOXES = (
    st.none()
    | st.sampled_from([*_MODES, True, False])
    | st.fixed_dictionaries(
        {},
        optional={
            "mode": st.sampled_from([None, *_MODES, True, False]),
            "network": st.none() | st.booleans(),
            "writable": st.none() | st.lists(st.sampled_from(["/a", "/b"]), unique=True),
        },
    )
)


def _tool(sandbox: Any, **more: Any) -> dict[str, Any]:
    return {"module": "tool-bash", **more, **({} if sandbox is None else {"config": {"sandbox": sandbox}})}


def _assert_no_looser(above: SandboxConfig, below: SandboxConfig) -> None:
    assert _MODES.index(below.mode) >= _MODES.index(above.mode)
    assert above.network or not below.network
    assert set(below.writable) <= set(above.writable)


@given(session=_SANDBOXES, tool=_SANDBOXES, own_session=_SANDBOXES, own=_SANDBOXES, id_=st.sampled_from([None, "new"]))
def test_no_instance_of_a_tool_has_a_looser_sandbox(
    session: Any, tool: Any, own_session: Any, own: Any, id_: str | None
) -> None:
    """Whatever parent and agent say of session and tool, under the same id or a new one."""
    parent = {"session": {"sandbox": session}, "tools": [_tool(tool)]}
    agent = {"session": {"sandbox": own_session}, "tools": [_tool(own, **({"id": id_} if id_ else {}))]}
    plan = child_plan(parent, agent)
    above = SandboxConfig.layered(session, tool)
    for entry in plan["tools"]:
        below = SandboxConfig.layered(plan["session"].get("sandbox"), entry.get("config", {}).get("sandbox"))
        _assert_no_looser(above, below)


def test_what_a_tool_shuts_stays_shut() -> None:
    """An agent's own words about a tool do not open again what the session opens and the tool of the parent shuts."""
    parent = {"session": {"sandbox": {"writable": ["/a"]}}, "tools": [_tool({"writable": []})]}
    plan = child_plan(parent, {"tools": [_tool("off")]})
    assert plan["tools"] == [_tool({"mode": "auto", "writable": []})]


@pytest.mark.parametrize("config", [{}, {"config": None}, {"config": {}}, {"config": {"sandbox": "off"}}])
def test_the_strictest_of_several_instances_counts_for_a_new_one(config: dict[str, Any]) -> None:
    """An id that the parent has not is no way out, with or without a word about the sandbox."""
    tools = [_tool({"network": True}, id="open"), _tool("required"), _tool("off", id="off")]
    agent = {"tools": [{"module": "tool-bash", "id": "b2", **config}]}
    plan = child_plan({"session": {"sandbox": "off"}, "tools": tools}, agent)
    assert plan["tools"][-1]["config"]["sandbox"] == {"mode": "required"}
    assert plan["tools"][:-1] == tools


def test_a_tool_that_no_session_in_between_has_is_held_to_what_the_root_says() -> None:
    """It comes back as it was."""
    root = {"session": {"sandbox": "off"}, "tools": [_tool("required")]}
    between = child_plan(root, {}, tool_inheritance={"inherit_tools": []})
    assert "tools" not in between
    plan = child_plan(between, {"tools": [_tool("off", id="b2")]}, above=[root])
    assert plan["tools"][0]["config"]["sandbox"] == {"mode": "required"}


def test_what_a_variable_may_turn_out_to_be_is_the_tightest() -> None:
    """The value of a variable is known only when the child starts."""
    for wish in ("${X:off}", {"mode": "${X:off}"}, "OFF"):
        plan = child_plan({"session": {"sandbox": "auto"}}, {"session": {"sandbox": wish}})
        assert plan["session"]["sandbox"] == {"mode": "required"}
    plan = child_plan({"session": {"sandbox": "${X:required}"}}, {"session": {"sandbox": "off"}})
    assert plan["session"]["sandbox"] == {"mode": "${X:required}"}


@pytest.mark.parametrize(
    ("module", "server", "own", "expected"),
    [
        ("required", None, "off", {"mode": "required"}),
        (None, "required", "off", {"mode": "required"}),
        (None, "required", None, "required"),
        (None, None, {"mode": "off", "network": True}, {"mode": "auto"}),
    ],
)
def test_servers_of_a_tool_have_no_looser_sandbox_either(module: Any, server: Any, own: Any, expected: Any) -> None:
    """What a tool starts by itself can have a sandbox of its own."""

    def tool(sandbox: Any, of_server: Any) -> dict[str, Any]:
        config = {"sandbox": sandbox, "servers": {"db": {"command": "db", "sandbox": of_server}}}
        return {"module": "tool-mcp", "config": config}

    plan = child_plan({"tools": [tool(module, server)]}, {"tools": [tool(module, own)]})
    assert plan["tools"][0]["config"]["servers"]["db"]["sandbox"] == expected
