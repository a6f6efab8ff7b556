"""Be an orchestrator: one turn of the engine for every prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from amplifier_kit.config import read_config
from amplifier_kit.engine.loop.asking import LoopMemory
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.turn import Turn


class TurnLoop:
    """Run the turns of one session; loops say which turn and which config."""

    turn_type: ClassVar[type[Turn]]
    config_type: ClassVar[type[LoopConfig]] = LoopConfig

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the config; raise ConfigError that names every wrong key."""
        self._config = read_config(self.config_type, config, module=self.turn_type.name)
        self._memory = LoopMemory()

    def turn_parts(self) -> tuple[Any, ...]:
        """Return what the loop's own turns take besides config and memory."""
        return ()

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
        turn = self.turn_type(
            self._config,
            self._memory,
            *self.turn_parts(),
            context=context,
            providers=providers,
            tools=tools,
            hooks=hooks,
            coordinator=coordinator,
        )
        return await turn.run(prompt)
