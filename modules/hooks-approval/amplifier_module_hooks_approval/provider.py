"""Ask an approval provider; anything but a clear yes is a no."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from amplifier_core import ApprovalRequest
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_kit.awaitable import maybe_await, plain_result
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_hooks_approval.config import ApprovalConfig
from amplifier_module_hooks_approval.policy import risk_of

logger = logging.getLogger(__name__)

#: Seconds that a late provider gets to end.
_GRACE: Final = 1.0
_LONGEST: Final = 500


class _Late(Exception):
    """The provider did not answer in time; not a TimeoutError that it raises itself."""


class Answer(NamedTuple):
    """Whether an action may be done, and why."""

    is_granted: bool
    reason: str
    #: Where it comes from, for the log: `provider`, `remembered`, `timeout`, `failure` or `nobody`.
    kind: str = "provider"

    @property
    def is_timeout(self) -> bool:
        """Return whether the provider did not answer in time."""
        return self.kind == "timeout"


class Question(NamedTuple):
    """A request for a decision."""

    action: str
    details: Mapping[str, Any]
    reason: str
    #: The kernel's request, whose id the provider gets; None on a kernel without such requests.
    request: ApprovalRequest | None = None

    @property
    def tool_name(self) -> str:
        """Return the name of the tool, empty when there is none."""
        name = self.details.get("tool_name")
        return name if isinstance(name, str) else ""

    @property
    def key(self) -> str:
        """Return a key that is equal for the same action with the same details."""
        asked = {name: value for name, value in self.details.items() if name != "tool_call_id"}
        return json.dumps([self.action, asked], sort_keys=True, default=repr)


class ProviderClient:
    """Ask the registered provider, and remember the answers that it wants remembered."""

    def __init__(self, coordinator: Any, settings: ApprovalConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._provider: Any = None
        self._remembered: dict[str, Answer] = {}

    @property
    def has_provider(self) -> bool:
        """Return whether a provider is registered."""
        return self._provider is not None

    def register(self, provider: Any) -> None:
        """Register a provider, None to remove it; raise TypeError for an object without `request_approval`."""
        if provider is not None and not callable(getattr(provider, "request_approval", None)):
            raise TypeError(f"an approval provider needs request_approval(request), {type(provider).__name__} has none")
        self._provider = provider
        self._remembered.clear()

    async def ask(self, question: Question) -> Answer:
        """Return the answer: `default_action` on a timeout; no without a provider, on an error or an unclear answer."""
        if self._provider is None:
            return Answer(False, "approval needed, but no approval provider is registered", "nobody")
        known = self._remembered.get(question.key)
        if known is not None:
            return known._replace(kind="remembered")
        provider = self._provider
        try:
            request = self._request(question)
            given = await _wait_for_answer(maybe_await(provider.request_approval(request)), request.timeout)
        except (_Late, ApprovalTimeoutError):
            return self._answer_timeout()
        except Exception as error:
            logger.error("hooks-approval: the approval provider failed: %r", error, exc_info=error)
            return Answer(False, f"the approval provider failed: {error or type(error).__name__}", "failure")
        answer = _read_answer(given)
        if getattr(given, "remember", None) is True:
            self._remembered[question.key] = answer
        return answer

    def _answer_timeout(self) -> Answer:
        seconds, default = self._settings.default_timeout, self._settings.default_action
        within = f" within {seconds:g} s" if seconds is not None else ""
        logger.warning("hooks-approval: no answer%s: the default is %s", within, default)
        return Answer(default == "allow", f"approval timeout: no answer{within}, default is {default}", "timeout")

    def _request(self, question: Question) -> ApprovalRequest:
        shown = self._scrub({**question.details, "reason": question.reason, "action": question.action})
        fields = {
            "tool_name": question.tool_name,
            "action": self._scrub(_summary(question)),
            "details": shown,
            "risk_level": risk_of(question.action, question.tool_name),
            "timeout": self._settings.default_timeout,
        }
        if question.request is None:
            return ApprovalRequest(**fields)
        texts = {name: getattr(question.request, name) for name in ("reason", "prompt", "subject")}
        return question.request.model_copy(update={**fields, **self._scrub(texts)})

    def _scrub(self, value: Any) -> Any:
        """Return the value without secrets, where the session can find them."""
        scrub = self._coordinator.get_capability("redaction.scrub")
        return value if scrub is None else plain_result(scrub(value))


async def _wait_for_answer(answer: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
    """Return the provider's answer; raise _Late when it takes too long, RuntimeError when it cancels itself.

    The provider runs in its own task, so that a timeout, its own cancellation and that of the session can be
    distinguished. It is cancelled in each case.
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


def _read_answer(given: Any) -> Answer:
    approved = getattr(given, "approved", None)
    reason = getattr(given, "reason", None)
    said = f": {reason}" if isinstance(reason, str) and reason else ""
    if approved is True:
        return Answer(True, f"approved{said}")
    if approved is False:
        return Answer(False, f"not approved{said}")
    logger.error("hooks-approval: the approval provider returned %s, which is not an answer", type(given).__name__)
    return Answer(False, "the approval provider returned an invalid answer", "failure")


def _summary(question: Question) -> str:
    """Return the action and its subject on one line."""
    given = question.details.get("tool_input")
    places = (question.details, given if isinstance(given, Mapping) else {})
    for key in ("command", "path", "file_path", "host", "url"):
        for place in places:
            if isinstance(value := place.get(key), str) and value:
                line = " ".join(value.split())
                return f"{question.action}: {line if len(line) <= _LONGEST else f'{line[:_LONGEST]}…'}"
    return question.action
