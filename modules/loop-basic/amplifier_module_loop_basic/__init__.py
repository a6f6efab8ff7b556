"""The plain agent loop: ask the model, run its tools side by side, ask again, until there is an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core.events import EXECUTION_END, EXECUTION_START
from amplifier_kit.loop import EXECUTION_HEARTBEAT, LOOP_DETECTED, LoopMemory, LoopSettings, Turn

__amplifier_module_type__ = "orchestrator"
__all__ = ["BasicLoop", "mount"]

NAME: Final = "loop-basic"
EVENTS: Final = (EXECUTION_START, EXECUTION_END, EXECUTION_HEARTBEAT, LOOP_DETECTED)


class BasicTurn(Turn):
    """Run a turn with nothing added; iterations count from 0."""

    name: ClassVar[str] = NAME


class BasicLoop:
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
        """Return the answer to `prompt`; raise what the provider raises, or RuntimeError when there is none.

        Without a coordinator there are no policies to ask: tools run when the hooks let them.
        """
        turn = BasicTurn(
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
    await coordinator.mount("orchestrator", BasicLoop(config))
