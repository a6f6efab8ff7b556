"""The one way to a person: a request with an id, the same for policies and hooks, in events and in the answer."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from amplifier_core import ApprovalRequest, ApprovalResponse, HookResult, ModuleCoordinator
from amplifier_core.approval import ApprovalHandler, ApprovalTimeoutError, measure_waits, put

Way = Literal["policy", "hook"]
_EVENTS = ("approval:required", "approval:granted", "approval:denied", "policy:violation")
BOTH = pytest.mark.parametrize("way", ["policy", "hook"])


class Handler(ApprovalHandler):
    """Take requests, and answer each the same way."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        self.requests.append(request)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer == "sleep":
            await asyncio.Event().wait()
        answer: ApprovalResponse = self.answer
        return answer


class Asking:
    """A session in which a policy or a hook wants a person to be asked."""

    def __init__(self, system: Any, **section: Any) -> None:
        owner = SimpleNamespace(session_id="s1", parent_id=None, config={"session": section})
        self.kernel = ModuleCoordinator(owner, system)
        self.kernel.register_policy("rules", lambda action, details: ("ask", "it writes"), 0)
        self.events: list[tuple[str, dict[str, Any]]] = []
        for event in _EVENTS:
            self.kernel.hooks.register(event, lambda event, data: self.events.append((event, data)))

    async def ask(self, way: Way, **fields: Any) -> bool:
        """Ask in one of the two ways; return whether it was allowed."""
        if way == "policy":
            return bool(await self.kernel.authorize("filesystem.write", {"tool_name": "write_file", "path": "a"}))
        result = HookResult(action="ask_user", approval_prompt="Sure?", **fields)
        return (await self.kernel.process_hook_result(result, "tool:pre", "gate")).action == "continue"

    def data(self, event: str) -> dict[str, Any]:
        (data,) = [data for name, data in self.events if name == event]
        return data


@BOTH
async def test_one_request_travels_from_the_event_to_the_answer(way: Way) -> None:
    """Event, approval system and outcome speak of one request by one id."""
    handler = Handler(ApprovalResponse(approved=True, answer="Allow", answered_by={"kind": "person", "user": "ada"}))
    asking = Asking(handler)

    assert await asking.ask(way)
    (request,) = handler.requests
    required, granted = asking.data("approval:required"), asking.data("approval:granted")
    assert request.id
    assert required["approval_id"] == granted["approval_id"] == request.id
    assert (request.session_id, request.origin) == ("s1", way)
    for name in ("action", "details", "prompt", "options", "default", "reason", "source"):
        assert required.get(name) == getattr(request, name), name
    assert granted["answered_by"] == {"kind": "person", "user": "ada"}
    assert granted["source"] == "approval_system"
    json.dumps(asking.events)


async def test_every_request_has_its_own_id() -> None:
    """Asking the same thing twice makes two requests."""
    handler = Handler(ApprovalResponse(approved=True))
    asking = Asking(handler)
    for way in ("policy", "policy", "hook"):
        await asking.ask(way)

    assert len({request.id for request in handler.requests}) == 3


async def test_a_request_says_what_it_is_about() -> None:
    """A policy's request has the action with its details and tool, a hook's the event and the prompt."""
    handler = Handler(ApprovalResponse(approved=True))
    asking = Asking(handler)
    with asking.kernel.span("call"):
        span = asking.kernel.span_id
        await asking.ask("policy")
        await asking.ask("hook")

    policy, hook = handler.requests
    assert (policy.action, policy.tool_name, policy.sources) == ("filesystem.write", "write_file", ("rules",))
    assert policy.details == {"tool_name": "write_file", "path": "a"}
    assert (hook.action, hook.details) == ("hook.ask", {"event": "tool:pre", "prompt": "Sure?"})
    assert [policy.span_id, hook.span_id] == [span, span]


@BOTH
@pytest.mark.parametrize("approved", [True, False])
async def test_a_handler_decides_by_its_field_alone(way: Way, approved: bool) -> None:
    """What the words of the response sound like does not matter."""
    words = "Deny" if approved else "Allow"
    assert await Asking(Handler(ApprovalResponse(approved=approved, answer=words))).ask(way) is approved


@BOTH
@pytest.mark.parametrize(
    ("error", "kind"), [(OSError("gone"), "failure"), (TypeError("odd"), "failure"), (TimeoutError("own"), "timeout")]
)
async def test_a_failing_approval_system_denies_and_is_logged_as_failure(way: Way, error: Exception, kind: str) -> None:
    """Both ways report the failure by the same event; only the hook's caller gets the error, as published."""
    asking = Asking(Handler(error))
    if way == "hook":
        with pytest.raises(type(error)):
            await asking.ask(way)
    else:
        assert not await asking.ask(way)

    denied = asking.data("approval:denied")
    assert (denied["source"], denied["answered_by"]) == ("kernel", {"kind": kind})


@BOTH
@pytest.mark.parametrize("answer", [None, "Allow", True, {"approved": True}])
async def test_a_handler_that_returns_another_type_fails(way: Way, answer: Any) -> None:
    """Nothing but a response is an answer of a handler."""
    asking = Asking(Handler(answer))
    if way == "hook":
        with pytest.raises(TypeError, match="ApprovalResponse"):
            await asking.ask(way)
    else:
        assert not await asking.ask(way)
    assert asking.data("approval:denied")["answered_by"] == {"kind": "failure"}


@BOTH
async def test_the_sessions_timeout_bounds_both_ways(way: Way) -> None:
    """`session.approval_timeout` holds for hooks too, and a timeout is not reported as a refusal."""
    asking = Asking(Handler("sleep"), approval_timeout=0.02)

    assert not await asking.ask(way)
    denied = asking.data("approval:denied")
    assert (denied["source"], denied["answered_by"]) == ("kernel", {"kind": "timeout"})
    assert asking.data("approval:required")["timeout"] == 0.02
    assert "deadline" in asking.data("approval:required")


async def test_a_shorter_timeout_of_the_hook_wins() -> None:
    """The shorter of the two timeouts is the one that the approval system gets."""
    handler = Handler(ApprovalTimeoutError())
    asking = Asking(handler, approval_timeout=60)
    await asking.ask("hook", approval_timeout=5)
    await asking.ask("hook", approval_timeout=500)

    assert [request.timeout for request in handler.requests] == [5, 60]


@BOTH
async def test_waiting_is_measured(way: Way) -> None:
    """The outcome says how long the person took, and so does a clock around the asking."""

    async def think(*question: Any) -> str:
        await asyncio.sleep(0.05)
        return "Allow"

    asking = Asking(SimpleNamespace(request_approval=think))
    with measure_waits() as clock:
        await asking.ask(way)

    waited = asking.data("approval:granted")["waited_ms"]
    assert 40 <= waited < 5000
    assert 40 <= clock.ms < 5000


async def test_waits_that_overlap_count_once() -> None:
    """Two questions that are open at the same time take the time of one."""
    going, both_open = asyncio.Event(), asyncio.Barrier(3)

    async def think(*question: Any) -> str:
        await both_open.wait()
        await going.wait()
        return "Allow"

    asking = Asking(SimpleNamespace(request_approval=think))
    with measure_waits() as outer, measure_waits() as inner:
        both = [asyncio.ensure_future(asking.ask("policy")) for _ in range(2)]
        await both_open.wait()
        await asyncio.sleep(0.05)
        going.set()
        await asyncio.gather(*both)

    waited = [data["waited_ms"] for name, data in asking.events if name == "approval:granted"]
    assert inner.ms == pytest.approx(outer.ms, abs=2)
    assert inner.ms <= sum(waited) - 40


async def test_a_policy_may_say_who_decided() -> None:
    """The third part of a policy's answer is the event's `answered_by`."""
    kernel = ModuleCoordinator(None)
    kernel.register_policy("rules", lambda action, details: ("allow", "fine", {"kind": "rule", "rule": "allow x"}), 0)

    assert (await kernel.authorize("tool.x")).answered_by == {"kind": "rule", "rule": "allow x"}


async def test_a_request_names_its_subject() -> None:
    """The first policy that asks and names the subject sets it; of a hook's request it is the event."""
    handler = Handler(ApprovalResponse(approved=True))
    asking = Asking(handler)
    asking.kernel.register_policy("paths", lambda action, details: ("ask", "outside", {}, "notes.txt"), 1)
    assert await asking.ask("policy")
    assert await asking.ask("hook")
    assert [request.subject for request in handler.requests] == ["notes.txt", "tool:pre"]


async def test_a_caller_with_only_a_prompt_gets_an_answer_in_words() -> None:
    """A module that calls the approval system itself uses the published signature, also with a handler."""
    handler = Handler(ApprovalResponse(approved=False, reason="not now"))

    assert await handler.request_approval("Sure?", ["Yes", "No"], 5, "allow") == "Deny: not now"
    (request,) = handler.requests
    assert (request.prompt, request.options, request.timeout, request.default) == ("Sure?", ["Yes", "No"], 5, "allow")
    assert request.id
    assert request.origin == "module"


async def test_an_answer_carries_the_id_of_its_request() -> None:
    """Both kinds of approval system answer the request that was put."""
    request = ApprovalRequest(tool_name="t", action="a", risk_level="low", id="r1", prompt="Sure?", default="deny")
    for system in (
        Handler(ApprovalResponse(approved=True, approval_id="another")),
        SimpleNamespace(request_approval=lambda *question: "Allow"),
    ):
        response = await put(system, request)
        assert (response.approved, response.approval_id) == (True, "r1")


def test_fields_that_are_not_set_are_not_dumped() -> None:
    """A request and a response of the published fields dump as published."""
    request = ApprovalRequest(tool_name="t", action="a", risk_level="low")
    assert set(request.model_dump()) == {"tool_name", "action", "details", "risk_level", "timeout"}
    assert set(ApprovalResponse(approved=True).model_dump()) == {"approved", "reason", "remember"}
    again = ApprovalRequest.model_validate_json(request.model_copy(update={"id": "r1"}).model_dump_json())
    assert again.id == "r1"
