"""A child may do what its parent may do, and never more."""

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_testing.loop.fakes import PlainTool

_LOOK = [{"tool_calls": [{"name": "look", "arguments": {}}]}, {"text": "Done."}]


class Asked:
    """Answer every question alike, and remember it."""

    def __init__(self, answer: str) -> None:
        self.answer, self.questions = answer, list[str]()

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.questions.append(prompt)
        return self.answer


@pytest.fixture
def looking(tree: Any, add_tools: Callable[..., str]) -> Any:
    """Return a tree whose agents look at something."""
    tree.plan["tools"] = [{"module": add_tools(lambda coordinator: [PlainTool("look", lambda given: "seen")])}]
    tree.script([], {"explorer": _LOOK, "builder": _LOOK})
    return tree


def _rules(verdict: str) -> dict[str, Any]:
    rules = [{"action": "tool.look", "verdict": verdict}]
    return {"module": "hooks-approval", "config": {"rules": rules}}


async def _result(tree: Any, spawn: Any) -> str:
    identity = (await spawn("explorer", "Go."))["session_id"]
    return str(next(text for role, text in tree.said(identity) if role == "tool"))


async def test_rules_of_the_parent_hold_for_its_children(looking: Any, spawn_in: Any) -> None:
    """What the user has denied, no agent does."""
    (looking.home / "policy.yaml").write_text("rules: [{action: tool.look, verdict: deny}]", encoding="utf-8")
    async with looking.run() as runtime:
        assert "seen" not in await _result(looking, spawn_in(runtime))


async def test_a_rule_for_this_session_holds_for_all_of_its_tree(looking: Any, spawn_in: Any) -> None:
    """What a person has decided for a session is not asked again by each of its children."""
    (looking.home / "policy.yaml").unlink()
    async with looking.run() as runtime:
        assert "seen" not in await _result(looking, spawn_in(runtime))
        runtime.folder.mkdir(exist_ok=True)
        (runtime.folder / "policy.yaml").write_text("rules: [{action: tool.look, verdict: allow}]", encoding="utf-8")
        assert await _result(looking, spawn_in(runtime)) == "seen"


@pytest.mark.parametrize(("own", "is_seen"), [("allow", False), ("deny", False)])
async def test_an_agent_cannot_allow_itself_what_its_parent_may_not(
    looking: Any, spawn_in: Any, own: str, is_seen: bool
) -> None:
    """Rules that an agent brings can only restrict."""
    (looking.home / "policy.yaml").write_text("rules: [{action: tool.look, verdict: deny}]", encoding="utf-8")
    looking.plan["agents"]["explorer"]["hooks"] = [_rules(own)]
    async with looking.run(trust=True) as runtime:
        assert ("seen" in await _result(looking, spawn_in(runtime))) == is_seen


async def test_an_agent_can_forbid_itself_what_its_parent_may(looking: Any, spawn_in: Any) -> None:
    """Its own rules hold for it and for all below it, and for nobody else."""
    looking.plan["agents"]["explorer"]["hooks"] = [_rules("deny")]
    async with looking.run(trust=True) as runtime:
        assert "seen" not in await _result(looking, spawn_in(runtime))
        other = (await spawn_in(runtime)("builder", "Go."))["session_id"]
        assert ("tool", "seen") in looking.said(other)


@pytest.mark.parametrize(("answer", "is_seen"), [("Allow", True), ("Deny", False)])
async def test_questions_of_children_are_put_to_whom_the_parent_asks(
    looking: Any, spawn_in: Any, answer: str, is_seen: bool
) -> None:
    """There is one person for the whole tree, and whoever answers now counts."""
    (looking.home / "policy.yaml").write_text("rules: [{action: tool.look, verdict: ask}]", encoding="utf-8")
    asked = Asked(answer)
    async with looking.run() as runtime:
        runtime.session.coordinator.approval_system = asked
        assert ("seen" in await _result(looking, spawn_in(runtime))) == is_seen
    assert len(asked.questions) == 1


async def test_nobody_to_ask_is_a_no(looking: Any, spawn_in: Any) -> None:
    """Nothing fails open because it is a child that asks."""
    (looking.home / "policy.yaml").write_text("rules: [{action: tool.look, verdict: ask}]", encoding="utf-8")
    async with looking.run() as runtime:
        assert "seen" not in await _result(looking, spawn_in(runtime))


async def test_rules_of_an_agent_hold_for_all_below_it(looking: Any, spawn_in: Any, delegating: str) -> None:
    """What an agent has forbidden itself it cannot have done by another one."""
    looking.plan["tools"].append({"module": delegating})
    looking.plan["agents"]["explorer"]["hooks"] = [_rules("deny")]
    calls = [{"name": "call", "arguments": {"agent": "builder"}, "id": "inner"}]
    looking.script([], {"explorer": [{"tool_calls": calls}, {"text": "Done."}], "builder": _LOOK})
    async with looking.run(trust=True) as runtime:
        await spawn_in(runtime)("explorer", "Go.")
    inner = next(path.name for path in looking.place.iterdir() if path.name.endswith("_builder"))
    assert all("seen" not in text for role, text in looking.said(inner) if role == "tool")
