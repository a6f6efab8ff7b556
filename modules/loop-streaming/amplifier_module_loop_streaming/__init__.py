"""The default agent loop: streaming, steering while it runs, pacing, and goals pursued over several turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.events import EXECUTION_END, EXECUTION_START
from amplifier_kit.loop import EXECUTION_HEARTBEAT, LOOP_DETECTED, LoopMemory
from amplifier_module_loop_streaming.settings import StreamingSettings
from amplifier_module_loop_streaming.steering import SteeringQueue, SteeringQueueFull
from amplifier_module_loop_streaming.turn import GOAL_PROGRESS, NAME, RATE_LIMIT_DELAY, STEERING_INJECTED, StreamingTurn

__amplifier_module_type__ = "orchestrator"
__all__ = ["SteeringQueue", "SteeringQueueFull", "StreamingLoop", "mount"]

EVENTS: Final = (
    EXECUTION_START,
    EXECUTION_END,
    STEERING_INJECTED,
    GOAL_PROGRESS,
    RATE_LIMIT_DELAY,
    EXECUTION_HEARTBEAT,
    LOOP_DETECTED,
)


class StreamingLoop:
    """Run the turns of one session; `steering` takes what a person says meanwhile."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the config; raise ValueError that names the key that is wrong."""
        self._settings = StreamingSettings.from_config(config)
        self._memory = LoopMemory()
        self.steering = SteeringQueue()

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: Mapping[str, Any],
        tools: Mapping[str, Any],
        hooks: Any,
        coordinator: Any = None,
        **_: Any,
    ) -> str:
        """Return the answer to `prompt`; raise what the provider raises, or RuntimeError when there is none.

        Without a coordinator there are no policies to ask: tools run when the hooks let them.
        """
        turn = StreamingTurn(
            self._settings,
            self._memory,
            self.steering,
            context=context,
            providers=providers,
            tools=tools,
            hooks=hooks,
            coordinator=coordinator,
        )
        return await turn.run(prompt)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the loop, offer `session.steer` and announce the events it emits."""
    loop = StreamingLoop(config)
    coordinator.register_capability("session.steer", loop.steering)
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    await coordinator.mount("orchestrator", loop)
