"""The default agent loop: streaming, steering while it runs, pacing, and goals pursued over several turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core.events import EXECUTION_END, EXECUTION_START
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.turn import EXECUTION_HEARTBEAT, LOOP_DETECTED, Turn, TurnLoop
from amplifier_module_loop_streaming.config import StreamingConfig
from amplifier_module_loop_streaming.turn import (
    GOAL_PROGRESS,
    NAME,
    RATE_LIMIT_DELAY,
    STEERING_INJECTED,
    SteeringQueue,
    SteeringQueueFull,
    StreamingTurn,
)

__amplifier_module_type__ = "orchestrator"
CONFIG: Final = StreamingConfig
__all__ = ["CONFIG", "SteeringQueue", "SteeringQueueFull", "StreamingLoop", "mount"]

EVENTS: Final = (
    EXECUTION_START,
    EXECUTION_END,
    STEERING_INJECTED,
    GOAL_PROGRESS,
    RATE_LIMIT_DELAY,
    EXECUTION_HEARTBEAT,
    LOOP_DETECTED,
)


class StreamingLoop(TurnLoop):
    """The orchestrator of one session; `steering` queues messages of the user during a turn."""

    turn_type: ClassVar[type[Turn]] = StreamingTurn
    config_type: ClassVar[type[LoopConfig]] = StreamingConfig

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the config; raise ConfigError that names every wrong key."""
        super().__init__(config)
        self.steering = SteeringQueue()

    def turn_parts(self) -> tuple[SteeringQueue]:
        """Return the queue that turns read between iterations."""
        return (self.steering,)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the loop, offer `session.steer` and announce the events it emits."""
    loop = StreamingLoop(config)
    coordinator.register_capability("session.steer", loop.steering)
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    await coordinator.mount("orchestrator", loop)
