"""An agent loop in which hooks have a say in the choice of every tool; calls run one after the other."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from amplifier_core.events import EXECUTION_END, EXECUTION_START
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.turn import EXECUTION_HEARTBEAT, LOOP_DETECTED, Turn, TurnLoop
from amplifier_module_loop_events.turn import EVENTS as OWN_EVENTS
from amplifier_module_loop_events.turn import NAME, EventsTurn

__amplifier_module_type__ = "orchestrator"
CONFIG: Final = LoopConfig
__all__ = ["CONFIG", "EventsLoop", "mount"]

EVENTS: Final = (EXECUTION_START, EXECUTION_END, *OWN_EVENTS, EXECUTION_HEARTBEAT, LOOP_DETECTED)


class EventsLoop(TurnLoop):
    """Run the turns of one session; a provider's failure becomes the answer."""

    turn_type: ClassVar[type[Turn]] = EventsTurn


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the loop and announce the events it emits."""
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    await coordinator.mount("orchestrator", EventsLoop(config))
