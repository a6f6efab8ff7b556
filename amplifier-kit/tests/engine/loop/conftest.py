"""Give the tests of the engine the smallest loop there can be on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from amplifier_kit.config import read_config
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.model_call import LoopMemory
from amplifier_kit.engine.loop.turn import EXECUTION_HEARTBEAT, LOOP_DETECTED, Turn


class PlainTurn(Turn):
    """Change nothing."""

    name: ClassVar[str] = "loop-plain"


class PlainLoop:
    """Run turns of the engine as it is."""

    turn_type: ClassVar[type[Turn]] = PlainTurn

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config = read_config(LoopConfig, config, module="loop-test")
        self.memory = LoopMemory()

    async def execute(self, prompt: str, **parts: Any) -> str:
        return await self.turn_type(self.config, self.memory, **{"coordinator": None, **parts}).run(prompt)


async def mount_plain(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    coordinator.register_contributor("observability.events", "loop-plain", lambda: [EXECUTION_HEARTBEAT, LOOP_DETECTED])
    await coordinator.mount("orchestrator", PlainLoop(config))


@pytest.fixture
def plain_loop() -> type[PlainLoop]:
    """Return the class of the smallest loop."""
    return PlainLoop


@pytest.fixture
def run() -> Any:
    """Return a function that mounts the smallest loop on a rig and runs one turn."""

    async def run_turn(rig: Any, config: dict[str, Any] | None = None, prompt: str = "hello") -> Any:
        await rig.mount(mount_plain, config)
        return await rig.run(prompt)

    return run_turn


@pytest.fixture
def mount() -> Any:
    """Return the mount function of the smallest loop."""
    return mount_plain
