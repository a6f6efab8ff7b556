"""In a session the module mounts, works, and leaves nothing behind."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import amplifier_module_context_simple as module
from amplifier_core import AmplifierSession
from amplifier_core.coordinator import set_context_fragment
from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import config_keys
from amplifier_kit.engine.context.token_budget import ContextConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def with_context(counting_plan: dict[str, Any], **config: Any) -> dict[str, Any]:
    context = {"module": "context-simple", "config": config}
    return {**counting_plan, "session": {**counting_plan["session"], "context": context}}


async def test_the_plan_of_the_readme_runs(counting_plan: dict[str, Any]) -> None:
    """The entry that the page shows mounts with the settings it names."""
    [block] = re.findall(r"```json\n(.*?)```", README, flags=re.DOTALL)
    shown = json.loads(block)
    async with AmplifierSession(
        {**counting_plan, "session": {**counting_plan["session"], **shown["session"]}}
    ) as session:
        assert await session.execute("hello") == "1 messages"
        context = session.coordinator.get("context")
        assert isinstance(context, module.SimpleContextManager)
        assert context.settings == ContextConfig(
            max_tokens=150_000, compact_threshold=0.85, compaction_notice_verbosity="minimal"
        )
        assert [message["role"] for message in await context.get_messages()] == ["user", "assistant"]


def test_the_readme_names_every_key_and_default() -> None:
    """The table of the page is the model: every key, with its default."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", README, flags=re.MULTILINE))
    defaults = {key.key: key.default for key in config_keys(ContextConfig)}
    assert {key: json.loads(shown) for key, shown in rows.items() if key in defaults} == {
        key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()
    }


async def test_fragments_reach_the_request(counting_plan: dict[str, Any]) -> None:
    """What was set with the system call is in the system part of the next request, by key, and gone when removed."""
    async with AmplifierSession(with_context(counting_plan)) as session:
        provider = session.coordinator.get("providers")["counting"]
        for key, value in (("zoo", "animals"), ("art", {"b": 1, "a": 2})):
            await _set(key, value, session)
        await session.execute("hello")
        [system, _] = provider.requests[-1]
        assert system["content"].index("animals") > system["content"].index('{"a": 2, "b": 1}')
        await _set("zoo", None, session)
        await _set("art", None, session)
        await session.execute("again")
        assert {message["role"] for message in provider.requests[-1]} == {"user", "assistant"}


async def _set(key: str, value: Any, session: AmplifierSession) -> None:
    announced = set_context_fragment(key, value, session_id=session.session_id)
    assert announced is not None
    await announced


async def test_a_parent_and_its_child_have_fragments_of_their_own(counting_plan: dict[str, Any]) -> None:
    """A context that is asked in another session's turn folds in the fragments of its own session."""
    async with (
        AmplifierSession(with_context(counting_plan)) as parent,
        AmplifierSession(with_context(counting_plan)) as child,
    ):
        await _set("who", "the child", child)
        await _set("who", "the parent", parent)
        child_context = child.coordinator.get("context")

        async def ask(event: str, data: dict[str, Any]) -> None:
            asked.append(await child_context.get_messages_for_request())

        asked: list[list[dict[str, Any]]] = []
        parent.coordinator.hooks.register("session:start", ask)
        await parent.execute("hello")
        assert "the child" in asked[0][0]["content"]


async def test_a_session_of_many_turns_is_compacted(counting_plan: dict[str, Any]) -> None:
    """Requests stay within the budget, the ledger stays whole, and the events say what happened."""
    heard: list[str] = []
    async with AmplifierSession(with_context(counting_plan, max_tokens=3000)) as session:
        for name in ("context:pre_compact", "context:compaction", "context:post_compact"):
            session.coordinator.hooks.register(name, lambda event, data: heard.append(event))
        for number in range(60):
            await session.execute(f"{number}: " + "tell me more " * 20)
        provider = session.coordinator.get("providers")["counting"]
        assert all(sum(len(str(message)) // 4 for message in request) <= 3000 for request in provider.requests)
        assert len(await session.coordinator.get("context").get_messages()) == 120
    assert heard[:3] == ["context:pre_compact", "context:compaction", "context:post_compact"]
    assert len(heard) % 3 == 0
    assert len(heard) < 60


async def test_the_cleanup_takes_the_handler_back(coordinator: MockCoordinator) -> None:
    """What mount returns undoes what mount registered."""
    cleanup = await module.mount(coordinator, {})
    assert coordinator.hooks.list_handlers("llm:response") == {"llm:response": ["context-simple-meter"]}
    assert await coordinator.collect_contributions("observability.events") == [["context:compact_skipped"]]
    cleanup()
    assert coordinator.hooks.list_handlers("llm:response") == {"llm:response": []}


async def test_mount_takes_no_config(coordinator: MockCoordinator) -> None:
    """None is an empty config."""
    await module.mount(coordinator)
    assert coordinator.get("context").settings == ContextConfig()


async def test_a_config_that_makes_no_sense_is_refused(counting_plan: dict[str, Any]) -> None:
    """The session does not start, and the error names module, key and range."""
    with pytest.raises(RuntimeError, match=r"context-simple: .*'max_tool_result_bytes' must be .* at least 256"):
        async with AmplifierSession(with_context(counting_plan, max_tool_result_bytes=10)):
            pass


async def test_sessions_side_by_side_do_not_mix(counting_plan: dict[str, Any]) -> None:
    """Twenty sessions of one process each keep their own."""

    async def run(name: str) -> list[str]:
        async with AmplifierSession(with_context(counting_plan)) as session:
            for number in range(5):
                await session.execute(f"{name}-{number}")
            return [message["content"] for message in await session.coordinator.get("context").get_messages()]

    ledgers = await asyncio.gather(*(run(f"s{number}") for number in range(20)))
    for number, ledger in enumerate(ledgers):
        assert ledger[::2] == [f"s{number}-{turn}" for turn in range(5)]
