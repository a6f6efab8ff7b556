"""When a session is named, by which model, and what is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession
from amplifier_module_hooks_session_naming import naming as naming_module
from amplifier_module_hooks_session_naming.naming import read_answer

MakeSession = Callable[..., Any]

SET = json.dumps({"action": "set", "name": "Flaky upload test", "description": "The upload test fails now and then."})
UPDATE = json.dumps({"action": "set", "name": "Other", "description": "It is fixed."})


class Names:
    """What an app keeps of a session's name."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {"turn_count": 0}

    def facts(self) -> dict[str, Any]:
        return dict(self.data)

    def set(self, name: str | None, description: str) -> str | None:
        self.data["description"] = description
        if name is not None:
            self.data["name"] = name
        return name


class NamingRig:
    """A session with the module, what the app keeps of it, and its events."""

    def __init__(self, session: AmplifierSession, names: Names) -> None:
        self.session, self.names = session, names
        self.coordinator: Any = session.coordinator
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.coordinator.hooks.register("*", lambda event, data: self.events.append((event, data)))

    async def turn(self) -> None:
        """Run a turn, and let what it started end."""
        self.names.data["turn_count"] += 1
        await self.session.execute("Why does the upload test fail?")
        for task in [task for task in asyncio.all_tasks() if "SessionNamer" in str(task.get_name())]:
            await asyncio.wait({task})

    def emitted(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == f"session-naming:{event}"]


@pytest.fixture
def make_session(scripted_session: Callable[..., AmplifierSession]) -> MakeSession:
    """Give `make_session(*answers, config=None, names=Names(), **options)`."""

    def make(*answers: Any, config: dict[str, Any] | None = None, names: Names | None = None, **options: Any) -> Any:
        kept = names or Names()
        session = scripted_session(
            *answers, hooks=[{"module": "hooks-session-naming", "config": config or {}}], **options
        )
        session.coordinator.register_capability("session.naming", kept)
        return NamingRig(session, kept)

    return make


async def test_the_second_turn_gives_the_name(make_session: MakeSession) -> None:
    """Nothing is asked after the first turn; after the second one name and description are set, with an event."""
    rig = make_session("one", "two", SET)
    async with rig.session:
        await rig.turn()
        assert "name" not in rig.names.data
        await rig.turn()
        assert rig.names.data["name"] == "Flaky upload test"
        assert rig.names.data["description"] == "The upload test fails now and then."
        request = rig.coordinator.get("providers")["scripted"].requests[-1]
        options = rig.coordinator.get("providers")["scripted"].options[-1]
    [event] = rig.emitted("set")
    assert (event["name"], event["is_update"]) == ("Flaky upload test", False)
    assert request.metadata == {"stream": False}
    assert request.max_output_tokens == 256
    assert options == {"extended_thinking": False}
    assert "[user] Why does the upload test fail?\n[assistant] one" in request.messages[1].content


async def test_the_conversation_is_not_touched(make_session: MakeSession) -> None:
    """What is asked for the name is no part of the conversation."""
    rig = make_session("one", "two", SET)
    async with rig.session:
        await rig.turn()
        await rig.turn()
        kept = await rig.coordinator.get("context").get_messages()
    assert [message["role"] for message in kept] == ["user", "assistant", "user", "assistant"]


async def test_later_answers_change_the_description_alone(make_session: MakeSession) -> None:
    """Every few turns the description is updated; the name stays, also one that the user gave."""
    names = Names()
    names.data |= {"name": "Mine", "turn_count": 6}
    rig = make_session("seven", UPDATE, "eight", names=names)
    async with rig.session:
        await rig.turn()
        assert names.data["name"] == "Mine"
        assert names.data["description"] == "It is fixed."
        await rig.turn()
    [event] = rig.emitted("set")
    assert (event["name"], event["is_update"]) == ("Mine", True)


async def test_a_name_that_comes_meanwhile_counts(make_session: MakeSession) -> None:
    """A user who renames the session while the model is asked keeps their name."""
    names = Names()
    names.data["turn_count"] = 1

    def renamed(request: Any) -> Any:
        from amplifier_testing.loop.fakes import say

        names.data["name"] = "Mine"
        return say(SET)

    rig = make_session("two", renamed, names=names)
    async with rig.session:
        await rig.turn()
    assert names.data["name"] == "Mine"


async def test_deferring_tries_again_but_not_for_ever(make_session: MakeSession) -> None:
    """After `defer`, the next turns try again, as often as the config says."""
    defer = '{"action": "defer"}'
    rig = make_session("one", defer, "two", defer, "three", config={"initial_trigger_turn": 1, "max_retries": 1})
    async with rig.session:
        for _ in range(3):
            await rig.turn()
    assert len(rig.emitted("deferred")) == 2
    assert "name" not in rig.names.data


@pytest.mark.parametrize(
    "answer", ["no idea", '{"action": "sing"}', '{"action": "set"}', '{"action": "set", "name": 3}']
)
async def test_an_answer_that_cannot_be_used_is_an_event(make_session: MakeSession, answer: str) -> None:
    """A wrong answer sets nothing, is reported, and costs no turn."""
    rig = make_session("one", answer, config={"initial_trigger_turn": 1})
    async with rig.session:
        await rig.turn()
    assert len(rig.emitted("error")) == 1
    assert "name" not in rig.names.data


async def test_a_slow_answer_is_given_up(make_session: MakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does not answer in time is an event, and the session goes on."""
    monkeypatch.setattr(naming_module, "_ANSWER_SECONDS", 0.01)

    async def never(request: Any) -> Any:
        await asyncio.Event().wait()

    rig = make_session("one", never, "two", config={"initial_trigger_turn": 1, "max_retries": 0})
    async with rig.session:
        await rig.turn()
        await rig.turn()
    assert len(rig.emitted("timeout")) == 1


async def test_the_end_waits_for_the_name_but_not_for_ever(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that ends while the model is asked waits for the answer, and gives up after its time."""
    gate = asyncio.Event()

    async def late(request: Any) -> Any:
        from amplifier_testing.loop.fakes import say

        await gate.wait()
        return say(SET)

    rig = make_session("one", late, config={"initial_trigger_turn": 1})
    async with rig.session:
        rig.names.data["turn_count"] = 1
        await rig.session.execute("go")
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(gate.set)
    assert rig.names.data["name"] == "Flaky upload test"

    monkeypatch.setattr(naming_module, "_END_SECONDS", 0.01)
    gate.clear()
    stuck = make_session("one", late, config={"initial_trigger_turn": 1})
    async with stuck.session:
        stuck.names.data["turn_count"] = 1
        await stuck.session.execute("go")
    assert "name" not in stuck.names.data
    assert naming_module._END_SECONDS < 15 < 15.5


async def test_child_sessions_are_not_named(make_session: MakeSession) -> None:
    """A session with a parent keeps the name of its agent."""
    rig = make_session("one", config={"initial_trigger_turn": 1}, parent_id="parent")
    async with rig.session:
        await rig.turn()
    assert "name" not in rig.names.data
    assert rig.emitted("error") == []


async def test_the_role_chooses_the_model(make_session: MakeSession) -> None:
    """The model of the configured role is asked, whether the resolver is async or not."""

    class Resolver:
        async def resolve(self, role: str) -> list[dict[str, str]]:
            assert role == "tiny"
            return [{"provider": "scripted", "model": "small-1"}]

    rig = make_session("one", SET, config={"initial_trigger_turn": 1, "model_role": "tiny"})
    rig.coordinator.register_capability("model_role_resolver", Resolver())
    async with rig.session:
        await rig.turn()
        request = rig.coordinator.get("providers")["scripted"].requests[-1]
    assert request.model == "small-1"


async def test_texts_are_cut_at_a_word(make_session: MakeSession) -> None:
    """Name and description fit on one line and into their limits."""
    answer = json.dumps({"action": "set", "name": "Words\nand words, again", "description": "d" * 300})
    rig = make_session("one", answer, config={"initial_trigger_turn": 1, "max_name_length": 12})
    async with rig.session:
        await rig.turn()
    assert rig.names.data["name"] == "Words and"
    assert rig.names.data["description"] == "d" * 200


async def test_without_an_app_the_metadata_are_written(
    scripted_session: Callable[..., AmplifierSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no app keeps names, name and description are merged into metadata.json; other keys stay."""
    from amplifier_kit.home import project_slug

    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path))
    hooks = [{"module": "hooks-session-naming"}]
    session = scripted_session("two", SET, hooks=hooks, session_id="s1")
    session.coordinator.register_capability("session.working_dir", str(tmp_path))
    file = tmp_path / "projects" / project_slug(tmp_path) / "sessions" / "s1" / "metadata.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"turn_count": 1, "mine": true}', encoding="utf-8")
    async with session:
        await session.execute("go")
    data = json.loads(file.read_bytes())
    assert (data["name"], data["turn_count"], data["mine"]) == ("Flaky upload test", 1, True)


@given(st.text(), st.dictionaries(st.text(), st.integers(), min_size=1))
def test_the_first_object_of_an_answer_counts(before: str, data: dict[str, int]) -> None:
    """Text around the JSON object does not matter, and an answer without one is a ValueError."""
    before = before.replace("{", "")
    assert read_answer(f"{before}{json.dumps(data)} and more {{}}") == data
    with pytest.raises(ValueError):
        read_answer(before)
