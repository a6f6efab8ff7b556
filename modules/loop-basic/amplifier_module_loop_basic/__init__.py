"""The plain agent loop: ask the model, run its tools side by side, ask again, until there is an answer."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from amplifier_core.events import EXECUTION_END, EXECUTION_START
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.turn import EXECUTION_HEARTBEAT, LOOP_DETECTED, Turn, TurnLoop

__amplifier_module_type__ = "orchestrator"
CONFIG: Final = LoopConfig
__all__ = ["CONFIG", "BasicLoop", "mount"]

NAME: Final = "loop-basic"
EVENTS: Final = (EXECUTION_START, EXECUTION_END, EXECUTION_HEARTBEAT, LOOP_DETECTED)


class BasicTurn(Turn):
    """Run a turn with nothing added; iterations count from 0."""

    name: ClassVar[str] = NAME


class BasicLoop(TurnLoop):
    """Run the turns of one session."""

    turn_type: ClassVar[type[Turn]] = BasicTurn


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the loop and announce the events it emits."""
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    await coordinator.mount("orchestrator", BasicLoop(config))
