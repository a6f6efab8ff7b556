"""A project in which a scripted model delegates, with everything else real: spawn, tools, rules, logs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, prepare
from amplifier_foundation.sessions.resume import load_session, prepare_saved
from amplifier_foundation.sessions.runtime import SessionRuntime

Meanwhile = Callable[[SessionRuntime], Coroutine[Any, Any, None]]
BUNDLE = {
    "bundle": {"name": "workshop"},
    "includes": [
        {"bundle": "amplifier:behaviors/logging"},
        {"bundle": "amplifier:behaviors/agents"},
        {"bundle": "amplifier:behaviors/tools"},
    ],
    "session": {"orchestrator": {"module": "loop-streaming"}, "context": {"module": "context-simple"}},
    "providers": [{"module": "provider-mock", "config": {"scenario": "./scenario.yaml"}}],
    "tools": [{"module": "tool-delegate"}],
}


@dataclass(frozen=True)
class Ran:
    """What one turn of the root session left behind."""

    answer: str
    session_id: str
    folder: Path

    def events(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the log of the session, or of another one beside it."""
        path = self.folder.parent / (session_id or self.session_id) / "events.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def of(self, name: str, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the payloads of one kind of event."""
        return [record["data"] for record in self.events(session_id) if record["event"] == name]

    def child(self, agent: str) -> str:
        """Return the id of the only child that an agent has here, which has come back with an answer."""
        [end] = [data for data in self.of("delegate:agent_completed") if data["agent"].endswith(agent)]
        assert end["success"], end
        return str(end["sub_session_id"])

    def metadata(self, session_id: str) -> dict[str, Any]:
        """Return what a session says of itself."""
        path = self.folder.parent / session_id / "metadata.json"
        return dict(json.loads(path.read_text(encoding="utf-8")))

    def tools_used(self, session_id: str) -> list[tuple[str, bool]]:
        """Return the tools that a session has used, by name, and whether each of them did what it was asked for."""
        return sorted((data["tool_name"], data["result"]["success"]) for data in self.of("tool:post", session_id))


class Workshop:
    """A project, a home, and the rules that the user of them has written."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.project = folder / "project"
        self.project.mkdir()
        self.home.path.mkdir()
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "user")}
        #: What is said when the bundle is made ready.
        self.warnings: tuple[str, ...] = ()

    def write(self, path: str, text: str) -> Path:
        """Put a file into the project."""
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def allow(self, *rules: dict[str, str]) -> None:
        """Write what the user allows; starting agents is part of it."""
        allowed = [{**rule, "verdict": "allow"} for rule in ({"action": "session.spawn"}, *rules)]
        (self.home.path / "policy.yaml").write_text(yaml.safe_dump({"rules": allowed}), encoding="utf-8")

    async def run(self, scenario: str, prompt: str, *, meanwhile: Meanwhile | None = None, **bundle: Any) -> Ran:
        """Run one turn by the script, and do something meanwhile; keys in `bundle` take the place of the bundle's."""
        options = self.options(scenario, {**BUNDLE, **bundle})
        prepared = await prepare(options)
        assert prepared.warnings == self.warnings
        return await self._run(SessionRuntime(prepared, environ=self.environ, spawner=Spawner()), prompt, meanwhile)

    async def go_on(self, ran: Ran, scenario: str, prompt: str) -> Ran:
        """Run another turn of a session that has ended, by another script."""
        options = self.options(scenario, BUNDLE)
        saved = load_session(ran.folder)
        prepared = await prepare_saved(saved, replace(options, bundle=None))
        return await self._run(SessionRuntime(prepared, saved=saved, environ=self.environ, spawner=Spawner()), prompt)

    def options(self, scenario: str, bundle: dict[str, Any] = BUNDLE) -> Options:
        """Write bundle and script, and return what an app asks for to run them."""
        place = self.project.parent / "bundle"
        place.mkdir(exist_ok=True)
        (place / "scenario.yaml").write_text(scenario, encoding="utf-8")
        (place / "bundle.yaml").write_text(yaml.safe_dump(bundle, sort_keys=False), encoding="utf-8")
        return Options(self.home, self.project, bundle=str(place / "bundle.yaml"), offline=True, environ=self.environ)

    async def _run(self, runtime: SessionRuntime, prompt: str, meanwhile: Meanwhile | None = None) -> Ran:
        try:
            async with runtime, asyncio.TaskGroup() as group:
                if meanwhile is not None:
                    group.create_task(meanwhile(runtime))
                answer = await runtime.execute(prompt)
        except Exception as error:
            # A child that left the script says why in its own end; the root only sees that an answer is missing.
            for record in Ran("", runtime.session_id, runtime.folder).events():
                if record["event"] == "delegate:error":
                    error.add_note(str(record["error"]))
            raise
        return Ran(str(answer), runtime.session_id, runtime.folder)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Return an empty project, with a user who allows agents to be started."""
    made = Workshop(tmp_path)
    made.allow()
    return made


@pytest.fixture
def ran_in() -> Callable[[Path], Ran]:
    """Return what makes a run of the folder of a session that another process has run."""
    return lambda folder: Ran("", folder.name, folder)
