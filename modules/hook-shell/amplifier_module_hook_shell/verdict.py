"""Run the hooks of one event, and fold what they want into one verdict: deny > ask > modify > continue.

Hooks run one after the other, in the order they are written, and see what those before them changed; those of one
parallel group run at the same time. What waits for consent gets it for what really happens: when a hook changes
something, every hook that has judged the earlier version judges the new one too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any, Final

from amplifier_kit.struct import Struct
from amplifier_module_hook_shell.answer import Answer
from amplifier_module_hook_shell.entry import Hook
from amplifier_module_hook_shell.hook_events import Moment

#: How often everybody judges, before changes that never come to rest are a refusal.
MOST_ROUNDS: Final = 5

#: Run one hook on the current value and return what counts of its answer; never raises.
RunHook = Callable[[Hook, Any], Awaitable[Answer]]


class Verdict(Struct):
    """What all hooks of an event want together."""

    value: Any
    is_changed: bool = False
    denied_by: str = ""
    reason: str = ""
    asked_by: str = ""
    question: str = ""
    is_stopping: bool = False
    #: What the model is to read, each with the hook that says it.
    contexts: list[tuple[str, str]] = field(default_factory=list)

    def take(self, hook: Hook, answer: Answer) -> None:
        """Add what one hook wants."""
        said = (hook.name, answer.context)
        if answer.context and said not in self.contexts:
            self.contexts.append(said)
        if answer.decision == "deny" and not self.denied_by:
            self.denied_by, self.reason = hook.name, answer.reason
        if answer.decision == "ask" and not self.asked_by:
            self.asked_by, self.question = hook.name, answer.reason
        self.is_stopping = self.is_stopping or answer.is_stopping


class Rounds:
    """Bring the hooks of one event to a verdict."""

    def __init__(self, moment: Moment, hooks: Sequence[Hook], value: Any, run: RunHook) -> None:
        """Judge `value`, the part of the event that hooks may replace."""
        self._moment = moment
        self._run = run
        self._steps = _steps(hooks)
        self._original = _written(value)
        self._verdict = Verdict(value)
        #: hook → the version it has agreed to
        self._agreed: dict[int, str] = {}

    async def verdict(self) -> Verdict:
        """Return what the hooks want; the first that denies ends it."""
        for _ in range(MOST_ROUNDS if self._moment.is_gate else 1):
            for step in self._steps:
                await self._take_step([hook for hook in step if self._is_open(hook)])
                if self._verdict.denied_by:
                    return self._verdict
            if not self._moment.is_gate or not any(self._is_open(hook) for step in self._steps for hook in step):
                return self._settled()
        self._verdict.denied_by = self._steps[-1][-1].name
        self._verdict.reason = f"the hooks still change each other's changes after {MOST_ROUNDS} rounds"
        return self._verdict

    def _settled(self) -> Verdict:
        self._verdict.is_changed = _written(self._verdict.value) != self._original
        return self._verdict

    def _is_open(self, hook: Hook) -> bool:
        return self._agreed.get(id(hook)) != _written(self._verdict.value)

    async def _take_step(self, hooks: Sequence[Hook]) -> None:
        value = self._verdict.value
        seen = _written(value)
        for hook, answer in zip(hooks, await self._answers(hooks, value), strict=True):
            self._verdict.take(hook, answer)
            self._agreed[id(hook)] = seen
            if answer.is_replacing:
                self._verdict.value = answer.replacement
                self._agreed[id(hook)] = _written(answer.replacement)

    async def _answers(self, hooks: Sequence[Hook], value: Any) -> list[Answer]:
        if len(hooks) == 1:
            return [await self._run(hooks[0], value)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(self._run(hook, value))) for hook in hooks]
        return [task.result() for task in tasks]


async def _awaited(work: Awaitable[Answer]) -> Answer:
    return await work


def _steps(hooks: Sequence[Hook]) -> list[list[Hook]]:
    """Return the hooks as they run: those of one group together, all others by themselves."""
    keyed = ((hook.group if hook.group is not None else -1 - index, hook) for index, hook in enumerate(hooks))
    return [[hook for _, hook in together] for _, together in groupby(keyed, key=lambda pair: pair[0])]


def _written(value: Any) -> str:
    """Serialize a value; two texts are equal only when their JSON values are."""
    return json.dumps(value, sort_keys=True, default=str)
