"""Be a context manager: keep the ledger whole and build requests that fit the model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ClassVar, NoReturn

from amplifier_core.events import CONTEXT_COMPACTION, CONTEXT_POST_COMPACT, CONTEXT_PRE_COMPACT, LLM_RESPONSE
from amplifier_core.llm_errors import ContextLengthError
from amplifier_kit.awaitable import DONE, Done
from amplifier_kit.engine.context.compaction import COMPACT_SKIPPED, Compacted
from amplifier_kit.engine.context.compaction_notice import notice_for, with_notice
from amplifier_kit.engine.context.config import ContextConfig
from amplifier_kit.engine.context.instructions import Instructions, SystemPart
from amplifier_kit.engine.context.ledger import Ledger
from amplifier_kit.engine.context.messages import Message
from amplifier_kit.engine.context.request import Request, Shown, compaction_facts, required_tokens
from amplifier_kit.engine.context.request_budget import request_budget
from amplifier_kit.engine.context.token_meter import Meter
from amplifier_kit.engine.context.view import Room, Views
from amplifier_kit.engine.tokens import estimate_tokens
from amplifier_kit.engine.usage import UsageRecord

__all__ = ["BaseContext"]

logger = logging.getLogger(__name__)

#: Runs after hooks that change a response and before those that log it.
_METER_PRIORITY = 50
#: How many budgets may take turns in one session, as models do, without being announced again each time.
_ROOMS = 4


class BaseContext:
    """Keep messages in memory; subclasses add where else they live.

    The ledger is never shortened: compaction is a view that `get_messages_for_request` builds from it, and the same
    ledger and budget give the same view. Without a coordinator there are no events and no fragments.
    """

    #: The module's id: events, capabilities and warnings name it.
    name: ClassVar[str] = "context"

    def __init__(self, settings: ContextConfig | None = None, coordinator: Any = None) -> None:
        self.settings = settings or ContextConfig()
        self._coordinator = coordinator
        self._hooks = getattr(coordinator, "hooks", None)
        self._ledger = Ledger(self.settings.max_tool_result_bytes)
        self._instructions = Instructions(self.settings, coordinator)
        self._views = Views(self.settings)
        self._meter = Meter()
        #: The compaction that was announced last for each room, and the conversation's epoch at the time.
        self._announced: dict[Room, tuple[int, Compacted]] = {}
        self._last_request: Request | None = None

    # -- the protocol --

    async def add_message(self, message: Any) -> None:
        """Append a copy of a message, stamped with `metadata.timestamp` unless it has one.

        The text of a tool result beyond `max_tool_result_bytes` is cut out of its middle for good. Raises TypeError
        for what is no mapping and ValueError for a message without a role.
        """
        self._ledger.add(message)

    async def get_messages(self) -> list[Message]:
        """Return the whole history, standing system messages first; changing the list changes nothing here."""
        return [*map(dict, self._instructions.standing), *self._ledger.since(0)]

    async def set_messages(self, messages: Iterable[Any]) -> None:
        """Replace the history; entries that are no messages are left out with a warning."""
        self._ledger.replace(messages)
        self._forget()

    async def clear(self) -> None:
        """Forget the history; the system prompt factory and standing messages stay."""
        self._ledger.clear()
        self._forget()

    async def get_messages_for_request(self, token_budget: int | None = None, provider: Any = None) -> list[Message]:
        """Return what the next request sends: the system part, then the conversation, compacted when it must be.

        Raises ContextLengthError when not even the instructions, the user's last words and the latest exchange fit,
        and what the system prompt factory raises.
        """
        budget = await request_budget(token_budget, provider, self.settings)
        system = await self._instructions.assemble(self._ledger.instructions)
        room = Room.within(self._in_estimates(budget), system.tokens, self.settings)
        shown = await self._shown(room, system, provider)
        request = self._build(shown, room, system)
        self._last_request = request
        self._meter.expect(request.messages, request.tokens, budget)
        return [dict(message) for message in request.messages]

    def set_system_prompt_factory(self, factory: Callable[[], Awaitable[str]] | None) -> Done:
        """Derive the instructions from `factory` at every request; None goes back to stored system messages.

        With a factory, stored system messages are left out of requests, except those that hooks injected. It holds at
        once; what is returned is for callers that await the call, as contexts with an async one need it.
        """
        self._instructions.factory = factory
        return DONE

    async def should_compact(self) -> bool:
        """Return False: requests are compacted as they are built."""
        return False

    async def compact(self) -> None:
        """Do nothing: requests are compacted as they are built."""

    # -- for apps and modules --

    @property
    def messages(self) -> list[Message]:
        """Return copies of all messages of the ledger."""
        return self._ledger.since(0)

    def messages_since(self, position: int) -> list[Message]:
        """Return the messages of the ledger from `position` on: what a store that appends has not written yet."""
        return self._ledger.since(position)

    @property
    def message_count(self) -> int:
        """Return how many messages the ledger has."""
        return len(self._ledger)

    def attach(self) -> Callable[[], Any]:
        """Connect to the session: the meter, the event of our own, the capabilities; return the cleanup."""
        coordinator = self._coordinator

        async def record(event: str, data: dict[str, Any]) -> None:
            self._meter.record(UsageRecord.of_response(data))

        unregister = coordinator.hooks.register(
            LLM_RESPONSE, record, priority=_METER_PRIORITY, name=f"{self.name}-meter"
        )
        coordinator.register_contributor("observability.events", self.name, lambda: [COMPACT_SKIPPED])
        coordinator.register_capability("context.request_retention", self.request_retention)
        coordinator.register_capability("context.foreground_usage", self._meter.usage)
        coordinator.register_capability("context.instruction_assembly", self.instruction_assembly)
        if self.settings.token_meter == "actual":
            coordinator.register_capability("context.measured_request_view", self._meter.view)

        def detach() -> None:
            unregister()
            self.close()

        return detach

    def close(self) -> None:
        """Let go of what is held open."""
        self._instructions.close()

    def request_retention(self) -> dict[str, Any] | None:
        """Return what the latest request kept of the ledger, None before the first."""
        return None if self._last_request is None else self._last_request.retention()

    async def instruction_assembly(self) -> str:
        """Return the system part that a request would carry now, as one text."""
        system = await self._instructions.assemble(self._ledger.instructions)
        return "\n\n".join(str(message["content"]) for message in system.messages)

    # -- building a request --

    def _in_estimates(self, budget: int) -> int:
        """Return a budget in estimated tokens, corrected by what the meter has learned when it is to be trusted."""
        return int(budget / self._meter.ratio) if self.settings.token_meter == "actual" else budget

    def _build(self, shown: Shown, room: Room, system: SystemPart) -> Request:
        made = shown.made
        messages = [*system.messages, *(made.messages if made is not None else ()), *shown.rest]
        tokens = system.tokens + shown.tokens
        notice = notice_for(made, room, self.settings) if made is not None else None
        cost = estimate_tokens(notice) if notice is not None else 0
        if notice is not None and tokens + cost <= room.budget:
            messages, tokens = with_notice(messages, notice), tokens + cost
        return Request(messages, tokens, room, made, shown.length, len(system.messages))

    async def _shown(self, room: Room, system: SystemPart, provider: Any) -> Shown:
        """Return what the request shows of the conversation; announce a compaction that is new."""
        talk = self._ledger.talk
        shown = Shown.of(talk, self._views.find(talk, room))
        if shown.made is None or self._is_announced(room, shown.made):
            return shown if shown.tokens <= room.limit else await self._give_up(room, provider)
        if not shown.made.changed and shown.tokens <= room.limit:
            await self._skip(room, "nothing_to_compact", "every message is protected or required")
            return Shown.of(talk, None)
        version = self._ledger.version
        denied = await self._asked(room, system)
        talk = self._ledger.talk
        if self._ledger.version != version:  # a hook had something to add
            shown = Shown.of(talk, self._views.find(talk, room))
        unchanged = Shown.of(talk, self._held(room))
        if denied is not None and unchanged.tokens <= room.limit:
            await self._skip(room, "denied", denied)
            return unchanged
        if shown.tokens > room.limit:
            return await self._give_up(room, provider)
        if shown.made is None:
            await self._skip(room, "no_longer_needed", "the history changed meanwhile")
            return shown
        if denied is not None:
            logger.warning("%s: compaction was denied (%s), but the request would not fit otherwise", self.name, denied)
        self._announce(room, shown.made)
        facts = compaction_facts(shown, room, system, self.settings)
        await self._emit(CONTEXT_COMPACTION, facts)
        await self._emit(
            CONTEXT_POST_COMPACT,
            {**facts, "message_count": facts["after_messages"], "system_tokens": room.system, "module": self.name},
        )
        return shown

    def _is_announced(self, room: Room, made: Compacted) -> bool:
        held = self._held(room)
        return held is not None and held.end == made.end

    def _announce(self, room: Room, made: Compacted) -> None:
        self._announced.pop(room, None)
        while len(self._announced) >= _ROOMS:
            del self._announced[next(iter(self._announced))]
        self._announced[room] = (self._ledger.talk.epoch, made)

    def _held(self, room: Room) -> Compacted | None:
        """Return the compaction that was announced last for this room, if it still holds."""
        epoch, made = self._announced.get(room, (None, None))
        return made if epoch == self._ledger.talk.epoch else None

    async def _asked(self, room: Room, system: SystemPart) -> str | None:
        """Announce a compaction; return the reason when a hook denies it."""
        talk = self._ledger.talk
        count = len(talk) + len(system.messages)
        payload = {
            "message_count": count,
            "before_messages": count,
            "before_tokens": talk.total + room.system,
            "system_tokens": room.system,
            "budget": room.budget,
            "threshold_tokens": room.threshold + room.system,
            "target_tokens": room.target + room.system,
            "module": self.name,
        }
        result = await self._emit(CONTEXT_PRE_COMPACT, payload)
        if getattr(result, "action", None) in ("ask_user", "inject_context"):
            result = await self._coordinator.process_hook_result(result, CONTEXT_PRE_COMPACT, self.name)
        if getattr(result, "action", None) != "deny":
            return None
        return getattr(result, "reason", None) or "no reason given"

    async def _give_up(self, room: Room, provider: Any) -> NoReturn:
        """Say what cannot fit and raise ContextLengthError."""
        needed = required_tokens(self._ledger.talk, room)
        await self._skip(room, "required_messages_exceed_budget", needed)
        raise ContextLengthError(
            f"The request cannot fit into {room.budget} tokens: {needed}. Shorten the prompt or the instructions, "
            "lower max_tool_result_bytes, or choose a model with a larger context window",
            provider=getattr(provider, "name", None),
        )

    async def _skip(self, room: Room, reason: str, detail: str) -> None:
        await self._emit(
            COMPACT_SKIPPED,
            {
                "reason": reason,
                "detail": detail,
                "tokens": self._ledger.talk.total + room.system,
                "budget": room.budget,
                "threshold_tokens": room.threshold + room.system,
                "message_count": len(self._ledger.talk),
                "module": self.name,
            },
        )

    async def _emit(self, event: str, payload: dict[str, Any]) -> Any:
        return await self._hooks.emit(event, payload) if self._hooks is not None else None

    def _forget(self) -> None:
        self._views.forget()
        self._announced.clear()
        self._last_request = None
