"""The base class of context managers: it keeps the ledger whole and builds requests that fit the model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ClassVar, Final, NoReturn

from amplifier_core.events import CONTEXT_COMPACTION, CONTEXT_POST_COMPACT, CONTEXT_PRE_COMPACT, LLM_RESPONSE
from amplifier_core.llm_errors import ContextLengthError
from amplifier_kit.awaitable import DONE, Done
from amplifier_kit.engine.context.compaction import (
    COMPACT_SKIPPED,
    NOT_COMPACTED,
    Compacted,
    Compactor,
    View,
    compaction_notice,
    insert_notice,
)
from amplifier_kit.engine.context.instructions import Instructions, SystemPart
from amplifier_kit.engine.context.ledger import Conversation, Ledger, Message
from amplifier_kit.engine.context.token_budget import (
    ContextConfig,
    TokenBudget,
    TokenMeter,
    estimate_tokens,
    request_budget,
)
from amplifier_kit.engine.usage import UsageRecord

logger = logging.getLogger(__name__)

#: Runs after hooks that change a response and before those that log it.
_METER_PRIORITY: Final = 50
#: How many budgets, of different models, may alternate in a session without repeating the events of a compaction.
_BUDGETS: Final = 4


class BaseContext:
    """Keep messages in memory; subclasses may store them elsewhere too.

    The ledger is never shortened: compaction is a view that `get_messages_for_request` builds from it, and the same
    ledger and budget give the same view. Without a coordinator there are no events and no fragments.
    """

    #: The module's id, in events, capabilities and warnings.
    name: ClassVar[str] = "context"

    def __init__(self, settings: ContextConfig | None = None, coordinator: Any = None) -> None:
        self.settings = settings or ContextConfig()
        self._coordinator = coordinator
        self._ledger = Ledger(self.settings.max_tool_result_bytes)
        self._instructions = Instructions(self.settings, coordinator)
        self._compactor = Compactor(self.settings)
        self._meter = TokenMeter()
        #: The latest reported compaction for each budget, and the conversation's epoch at the time.
        self._reported: dict[TokenBudget, tuple[int, Compacted]] = {}
        self._retention: dict[str, Any] | None = None

    # -- the protocol --

    async def add_message(self, message: Any) -> None:
        """Append a copy of a message, with `metadata.timestamp` unless it has one.

        The text of a tool result beyond `max_tool_result_bytes` is cut out of its middle for good. Raises TypeError
        when `message` is not a mapping and ValueError when it has no role.
        """
        self._ledger.add(message)

    async def get_messages(self) -> list[Message]:
        """Return a copy of the whole history, standing system messages first."""
        return [*map(dict, self._instructions.standing), *self._ledger.since(0)]

    async def set_messages(self, messages: Iterable[Any]) -> None:
        """Replace the history; invalid messages are left out with a warning."""
        self._ledger.replace(messages)
        self._forget_views()

    async def clear(self) -> None:
        """Clear the history; the system prompt factory and standing messages stay."""
        self._ledger.clear()
        self._forget_views()

    async def get_messages_for_request(self, token_budget: int | None = None, provider: Any = None) -> list[Message]:
        """Return the messages of the next request: the system part, then the conversation, compacted if necessary.

        Raises ContextLengthError when not even the instructions, the last user message and the latest exchange fit,
        and what the system prompt factory raises.
        """
        tokens = await request_budget(token_budget, provider, self.settings)
        system = await self._instructions.assemble(self._ledger.instructions)
        ratio = self._meter.ratio if self.settings.token_meter == "actual" else 1.0
        budget = TokenBudget.divide(int(tokens / ratio), system.tokens, self.settings)
        view = await self._view(budget, system, provider)
        messages, estimated = self._assemble(view, budget, system)
        self._retention = {
            "ledger_messages": view.length,
            "request_messages": len(messages),
            "system_messages": len(system.messages),
            **view.compacted.counts(),
            "request_tokens": estimated,
            "budget": budget.total,
        }
        self._meter.expect(messages, estimated, tokens)
        return [dict(message) for message in messages]

    def set_system_prompt_factory(self, factory: Callable[[], Awaitable[str]] | None) -> Done:
        """Derive the instructions from `factory` at every request; None goes back to stored system messages.

        With a factory, stored system messages are left out of requests, except those that hooks injected. It takes
        effect at once; the result is for callers that await the call, as some context managers need it.
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
        return self._ledger.since(0)

    def messages_since(self, position: int) -> list[Message]:
        """Return the messages of the ledger from `position` on, for a store that appends."""
        return self._ledger.since(position)

    @property
    def message_count(self) -> int:
        return len(self._ledger)

    def attach(self) -> Callable[[], Any]:
        """Register the meter, the event and the capabilities with the session; return the cleanup."""
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
        """Release what the context holds: a subclass may have files."""

    def request_retention(self) -> dict[str, Any] | None:
        """Return how much of the ledger the latest request shows, None before the first."""
        return None if self._retention is None else dict(self._retention)

    async def instruction_assembly(self) -> str:
        """Return the system part that a request would carry now, as one text."""
        system = await self._instructions.assemble(self._ledger.instructions)
        return "\n\n".join(str(message["content"]) for message in system.messages)

    # -- building a request --

    def _assemble(self, view: View, budget: TokenBudget, system: SystemPart) -> tuple[list[Message], int]:
        """Return the messages of a request and their estimated tokens, with the notice where it fits."""
        messages = [*system.messages, *view.compacted.messages, *view.rest]
        tokens = system.tokens + view.tokens
        notice = compaction_notice(view.compacted, budget, self.settings)
        if notice is None or tokens + (cost := estimate_tokens(notice)) > budget.total:
            return messages, tokens
        return insert_notice(messages, notice), tokens + cost

    async def _view(self, budget: TokenBudget, system: SystemPart, provider: Any) -> View:
        """Return the view of the conversation for a budget; a new compaction is announced and reported."""
        view = self._current_view(budget)
        fits = view.tokens <= budget.limit
        if view.compacted is NOT_COMPACTED or view.compacted.end == self._reported_for(budget).end:
            return view if fits else await self._give_up(budget, provider)
        if fits and not view.compacted.has_changes:
            await self._skip(budget, "nothing_to_compact", "every message is protected or required")
            return View.of(self._conversation, NOT_COMPACTED)
        denial = await self._ask_hooks(budget, system)
        view = self._current_view(budget)  # a hook may have added messages
        unchanged = View.of(self._conversation, self._reported_for(budget))
        if denial is not None and unchanged.tokens <= budget.limit:
            await self._skip(budget, "denied", denial)
            return unchanged
        if view.tokens > budget.limit:
            return await self._give_up(budget, provider)
        if view.compacted is NOT_COMPACTED:  # a hook replaced the history
            await self._skip(budget, "no_longer_needed", "a hook replaced the history")
            return view
        if denial is not None:
            logger.warning("%s: compaction was denied (%s), but the request would not fit otherwise", self.name, denial)
        await self._report(view, budget, system)
        return view

    @property
    def _conversation(self) -> Conversation:
        return self._ledger.conversation

    def _current_view(self, budget: TokenBudget) -> View:
        return View.of(self._conversation, self._compactor.find(self._conversation, budget))

    def _reported_for(self, budget: TokenBudget) -> Compacted:
        """Return the compaction that was last reported for this budget, unless it is stale."""
        epoch, compacted = self._reported.get(budget, (0, NOT_COMPACTED))
        return compacted if epoch == self._conversation.epoch else NOT_COMPACTED

    async def _ask_hooks(self, budget: TokenBudget, system: SystemPart) -> str | None:
        """Announce a compaction; return the reason when a hook denies it."""
        count = len(self._conversation) + len(system.messages)
        payload = {
            "message_count": count,
            "before_messages": count,
            "before_tokens": self._conversation.total + budget.system,
            "system_tokens": budget.system,
            "budget": budget.total,
            "threshold_tokens": budget.threshold + budget.system,
            "target_tokens": budget.target + budget.system,
            "module": self.name,
        }
        result = await self._emit(CONTEXT_PRE_COMPACT, payload)
        if getattr(result, "action", None) in ("ask_user", "inject_context"):
            result = await self._coordinator.process_hook_result(result, CONTEXT_PRE_COMPACT, self.name)
        if getattr(result, "action", None) != "deny":
            return None
        return getattr(result, "reason", None) or "no reason given"

    async def _report(self, view: View, budget: TokenBudget, system: SystemPart) -> None:
        """Emit the events of a compaction: the whole ledger before it, the view without its notice after."""
        self._reported.pop(budget, None)
        while len(self._reported) >= _BUDGETS:
            del self._reported[next(iter(self._reported))]
        self._reported[budget] = (self._conversation.epoch, view.compacted)
        before = view.length + len(system.messages)
        payload = {
            "before_tokens": self._conversation.total_until(view.length) + budget.system,
            "after_tokens": view.tokens + budget.system,
            "before_messages": before,
            "after_messages": before - view.compacted.removed,
            **view.compacted.counts(),
            "system_messages_preserved": len(system.messages) + len(self._conversation.systems),
            "budget": budget.total,
            "target_tokens": budget.target + budget.system,
            "protected_recent": self.settings.protected_recent,
            "protected_tool_results": self.settings.protected_tool_results,
        }
        await self._emit(CONTEXT_COMPACTION, payload)
        more = {"message_count": payload["after_messages"], "system_tokens": budget.system, "module": self.name}
        await self._emit(CONTEXT_POST_COMPACT, payload | more)

    async def _give_up(self, budget: TokenBudget, provider: Any) -> NoReturn:
        """Raise ContextLengthError, with the sizes of the required parts."""
        conversation = self._conversation
        parts = [f"the instructions take about {budget.system}"]
        if conversation.users:
            parts.append(f"the last user message {conversation.tokens[conversation.users[-1]]}")
        if len(conversation) and conversation.users[-1:] != [len(conversation) - 1]:
            latest = sum(conversation.tokens[position] for position in conversation.unit(conversation.leaders[-1]))
            parts.append(f"the latest exchange {latest} before clipping")
        required = ", ".join(parts)
        await self._skip(budget, "required_messages_exceed_budget", required)
        raise ContextLengthError(
            f"The request cannot fit into {budget.total} tokens: {required}. Shorten the prompt or the instructions, "
            "lower max_tool_result_bytes, or choose a model with a larger context window",
            provider=getattr(provider, "name", None),
        )

    async def _skip(self, budget: TokenBudget, reason: str, detail: str) -> None:
        payload = {
            "reason": reason,
            "detail": detail,
            "tokens": self._conversation.total + budget.system,
            "budget": budget.total,
            "threshold_tokens": budget.threshold + budget.system,
            "message_count": len(self._conversation),
            "module": self.name,
        }
        await self._emit(COMPACT_SKIPPED, payload)

    async def _emit(self, event: str, payload: dict[str, Any]) -> Any:
        hooks = getattr(self._coordinator, "hooks", None)
        return await hooks.emit(event, payload) if hooks is not None else None

    def _forget_views(self) -> None:
        self._compactor.clear_cache()
        self._reported.clear()
        self._retention = None
