"""Ask an approval provider, and take nothing for a yes that is none."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NamedTuple

from amplifier_core import ApprovalRequest
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_kit.awaitable import maybe_await, plain_result
from amplifier_module_hooks_approval._config import ApprovalConfig
from amplifier_module_hooks_approval._policy import risk_of

logger = logging.getLogger(__name__)

#: Seconds that a provider past its time gets to end.
_GRACE: Final = 1.0
_LONGEST: Final = 500


class _Late(Exception):
    """Nobody answered in time: not what a provider raises whose own connection failed in that way."""


class Answer(NamedTuple):
    """Whether it may be done, and why; a timeout is nobody's answer."""

    is_granted: bool
    reason: str
    #: What the answer is, for the log: of the `provider`, `remembered`, of a `timeout`, a `failure`, or `nobody`'s.
    kind: str = "provider"

    @property
    def is_timeout(self) -> bool:
        """Tell whether it is what silence comes to."""
        return self.kind == "timeout"


class Question(NamedTuple):
    """What is to be decided."""

    action: str
    details: Mapping[str, Any]
    reason: str
    #: The kernel's request, whose identity the provider is given; None on a kernel that makes none.
    request: ApprovalRequest | None = None

    @property
    def tool_name(self) -> str:
        """Return the tool, empty when it is about none."""
        name = self.details.get("tool_name")
        return name if isinstance(name, str) else ""

    @property
    def key(self) -> str:
        """Return what makes it the same question again: the action with everything that was given, to the letter."""
        asked = {name: value for name, value in self.details.items() if name != "tool_call_id"}
        return json.dumps([self.action, asked], sort_keys=True, default=repr)


class ProviderDesk:
    """Put questions to the provider that is registered, and remember what it wants remembered."""

    def __init__(self, coordinator: Any, settings: ApprovalConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._provider: Any = None
        self._remembered: dict[str, Answer] = {}

    @property
    def has_provider(self) -> bool:
        """Tell whether there is anybody to ask."""
        return self._provider is not None

    def register(self, provider: Any) -> None:
        """Let `provider` answer from now on; None for nobody. Raises TypeError for what cannot be asked."""
        if provider is not None and not callable(getattr(provider, "request_approval", None)):
            raise TypeError(f"an approval provider needs request_approval(request), {type(provider).__name__} has none")
        self._provider = provider
        self._remembered.clear()

    async def ask(self, question: Question) -> Answer:
        """Return the answer: no provider, an error, and what is no clear yes are a no; silence is `default_action`."""
        if self._provider is None:
            return Answer(False, "approval needed, but no approval provider is registered", "nobody")
        known = self._remembered.get(question.key)
        if known is not None:
            return known._replace(kind="remembered")
        provider = self._provider
        try:
            request = self._request(question)
            given = await _in_time(maybe_await(provider.request_approval(request)), request.timeout)
        except (_Late, ApprovalTimeoutError):
            return self._timed_out()
        except Exception as error:
            logger.error("hooks-approval: the approval provider failed: %r", error, exc_info=error)
            return Answer(False, f"the approval provider failed: {error or type(error).__name__}", "failure")
        answer = _understood(given)
        if getattr(given, "remember", None) is True:
            self._remembered[question.key] = answer
        return answer

    def _timed_out(self) -> Answer:
        seconds, default = self._settings.default_timeout, self._settings.default_action
        within = f" within {seconds:g} s" if seconds is not None else ""
        logger.warning("hooks-approval: nobody answered%s: the default is %s", within, default)
        return Answer(default == "allow", f"approval timeout: nobody answered{within}, default is {default}", "timeout")

    def _request(self, question: Question) -> ApprovalRequest:
        shown = self._scrubbed({**question.details, "reason": question.reason, "action": question.action})
        fields = {
            "tool_name": question.tool_name,
            "action": self._scrubbed(_summary(question)),
            "details": shown,
            "risk_level": risk_of(question.action, question.tool_name),
            "timeout": self._settings.default_timeout,
        }
        if question.request is None:
            return ApprovalRequest(**fields)
        texts = {name: getattr(question.request, name) for name in ("reason", "prompt", "subject")}
        return question.request.model_copy(update={**fields, **self._scrubbed(texts)})

    def _scrubbed(self, value: Any) -> Any:
        """Return what may be shown: without secrets, where the session knows how to find them."""
        scrub = self._coordinator.get_capability("redaction.scrub")
        return value if scrub is None else plain_result(scrub(value))


async def _in_time(answer: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
    """Return what a provider answers; raise _Late when it does not in time, RuntimeError when it gives up.

    The provider runs in a task of its own, so that a deadline, its own cancellation and that of the session are told
    apart. Whatever ends this, the provider is told to stop.
    """
    asking = asyncio.ensure_future(answer)
    try:
        await asyncio.wait({asking}, timeout=timeout)
    except BaseException:
        asking.cancel()
        raise
    if not asking.done():
        asking.cancel()
        await asyncio.wait({asking}, timeout=_GRACE)
        raise _Late
    if asking.cancelled():
        raise RuntimeError("it was cancelled")
    return asking.result()


def _understood(given: Any) -> Answer:
    approved = getattr(given, "approved", None)
    reason = getattr(given, "reason", None)
    said = f": {reason}" if isinstance(reason, str) and reason else ""
    if approved is True:
        return Answer(True, f"approved{said}")
    if approved is False:
        return Answer(False, f"not approved{said}")
    logger.error("hooks-approval: the approval provider answered with %s, which means nothing", type(given).__name__)
    return Answer(False, "the approval provider gave no answer that can be understood", "failure")


def _summary(question: Question) -> str:
    """Return the action with the one thing it is about, on one line."""
    given = question.details.get("tool_input")
    places = (question.details, given if isinstance(given, Mapping) else {})
    for key in ("command", "path", "file_path", "host", "url"):
        for place in places:
            if isinstance(value := place.get(key), str) and value:
                line = " ".join(value.split())
                return f"{question.action}: {line if len(line) <= _LONGEST else f'{line[:_LONGEST]}…'}"
    return question.action
