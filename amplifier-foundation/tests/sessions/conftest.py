"""Sessions that really ran, for tests of what is left of them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_kit.engine.context.ledger import sanitize_message
from amplifier_kit.log.writer import SessionLog
from amplifier_testing.loop.fakes import PlainTool

Message = dict[str, Any]


@dataclass
class Ran:
    """A session that ran: its folder, its messages, and the number of the last log line when each was stored."""

    folder: Path
    messages: list[Message] = field(default_factory=list)
    stored_at: list[int] = field(default_factory=list)
    session: Any = None
    log: Any = None


class RealSession:
    """Run turns with loop-basic, context-simple, provider-mock and hooks-logging, and keep the files as an app does."""

    def __init__(self, folder: Path, scenario: Sequence[dict[str, Any]], **options: Any) -> None:
        self.ran = Ran(folder)
        self._options = options
        folder.mkdir(parents=True, exist_ok=True)
        script = folder.parent / f"{folder.name}.scenario.json"
        script.write_text(json.dumps({"turns": list(scenario)}), encoding="utf-8")
        plan = {
            "session": {
                "orchestrator": {"module": options.get("loop", "loop-basic")},
                "context": {"module": "context-simple"},
            },
            "providers": [{"module": "provider-mock", "config": {"scenario": str(script), "raw": True}}],
            "hooks": [{"module": "hooks-logging"}],
        }
        self.session = AmplifierSession(plan, session_id=folder.name, is_resumed=options.get("is_resumed", False))

    async def __aenter__(self) -> "RealSession":
        coordinator, ran = self.session.coordinator, self.ran
        ran.session = self.session
        ran.log = self.log = SessionLog(ran.folder, verify=self._options.get("verify", True))
        coordinator.add_log_sink(self.log.write)
        coordinator.register_capability("session.dir", ran.folder)
        coordinator.register_policy("all", lambda *_: "allow")
        await self.session.initialize()
        for tool in self._options.get("tools", [_tool()]):
            await coordinator.mount("tools", tool)
        context = coordinator.get("context")
        await context.set_messages(self._options.get("messages", []))
        ran.stored_at = [0] * len(self._options.get("messages", []))
        add = context.add_message

        async def noting(message: Message) -> None:
            await add(message)
            ran.stored_at.append(self.log.seq)

        context.add_message = noting
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.save()
        await self.session.cleanup()
        self.log.close()

    async def say(self, prompt: str) -> Any:
        """Run one turn."""
        try:
            return await self.session.execute(prompt)
        finally:
            await self.save()

    async def save(self) -> None:
        """Write the transcript and the metadata."""
        ran = self.ran
        ran.messages = await self.session.coordinator.get("context").get_messages()
        lines = [json.dumps(sanitize_message(message), ensure_ascii=False) + "\n" for message in ran.messages]
        (ran.folder / "transcript.jsonl").write_text("".join(lines), encoding="utf-8")
        facts = {
            "session_id": ran.folder.name,
            "created": "2026-01-01T00:00:00+00:00",
            "bundle": "bundle:test",
            "model": "provider-mock/mock-model",
            "turn_count": sum(message["role"] == "user" for message in ran.messages),
            "working_dir": "/project",
        }
        (ran.folder / "metadata.json").write_text(json.dumps(facts), encoding="utf-8")


def _tool() -> PlainTool:
    async def look(given: dict[str, Any]) -> str:
        await asyncio.sleep(0.001 * int(given.get("wait", 0)))
        return f"page {given.get('page', 0)} " * int(given.get("size", 1))

    return PlainTool("look", look)


@pytest.fixture
def real_session() -> type[RealSession]:
    """Return what runs a session for real."""
    return RealSession


@pytest.fixture
def ran_session() -> Callable[..., Awaitable[Ran]]:
    """Return a function that runs a session of some prompts to its end."""

    async def run(folder: Path, scenario: Sequence[dict[str, Any]], *prompts: str, **options: Any) -> Ran:
        async with RealSession(folder, scenario, **options) as real:
            for prompt in prompts:
                await real.say(prompt)
        return real.ran

    return run
