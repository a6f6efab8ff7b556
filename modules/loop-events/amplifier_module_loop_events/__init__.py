"""An agent loop in which hooks have a say in the choice of every tool; calls run one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.events import EXECUTION_END, EXECUTION_START
from amplifier_kit.loop import EXECUTION_HEARTBEAT, LOOP_DETECTED, LoopMemory, LoopSettings
from amplifier_module_loop_events.turn import EVENTS as OWN_EVENTS
from amplifier_module_loop_events.turn import NAME, EventsTurn

__amplifier_module_type__ = "orchestrator"
__all__ = ["EventsLoop", "mount"]

EVENTS: Final = (EXECUTION_START, EXECUTION_END, *OWN_EVENTS, EXECUTION_HEARTBEAT, LOOP_DETECTED)


class EventsLoop:
    """Run the turns of one session."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the config; raise ValueError that names the key that is wrong."""
        self._settings = LoopSettings.from_config(config)
        self._memory = LoopMemory()

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
        """Return the answer to `prompt`, or what the provider's failure says; raise RuntimeError without a provider.

        Without a coordinator there are no policies to ask: tools run when the hooks let them.
        """
        turn = EventsTurn(
            self._settings,
            self._memory,
            context=context,
            providers=providers,
            tools=tools,
            hooks=hooks,
            coordinator=coordinator,
        )
        return await turn.run(prompt)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the loop and announce the events it emits."""
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    await coordinator.mount("orchestrator", EventsLoop(config))
