"""An approval provider for modules of the published kind: one question about one call, and only a yes lets it run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core import ApprovalRequest, ApprovalResponse, HookResult
from amplifier_core.approval import ApprovalHandler, ApprovalTimeoutError, is_consent
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.log.reader import read_log
from amplifier_testing.loop.fakes import PlainTool

_ME = {"kind": "person", "user": "me", "via": "test"}
_MAKE = {"id": "c1", "name": "run", "arguments": {"command": "make"}}


class _Person(ApprovalHandler):
    """Be an approval system that gives one answer after the other, then says nothing for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.was_asked = asyncio.Event()

    async def decide(self, request: ApprovalRequest) -> Any:
        self.questions.append(str(request.prompt))
        self.was_asked.set()
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if not isinstance(answer, str):
            return answer
        return ApprovalResponse(approved=is_consent(answer), answer=answer, answered_by=_ME)


class _Published:
    """Gate calls as the contract says of the published module: by a provider that is registered, else deny."""

    def __init__(self, coordinator: Any, **config: Any) -> None:
        self.provider: Any = None
        self.remembered: list[bool] = []
        self.reasons: list[str | None] = []
        self._coordinator, self._config = coordinator, config
        coordinator.register_capability("approval.register_provider", self._register)
        coordinator.hooks.register("tool:pre", self._on_call, priority=-10, name="approval_hook")

    def _register(self, provider: Any) -> None:
        self.provider = provider

    async def _on_call(self, event: str, data: dict[str, Any]) -> HookResult:
        if self.provider is None:
            return HookResult(action="deny", reason="no approval provider is registered")
        name, emit = data["tool_name"], self._coordinator.hooks.emit
        if not self._config.get("is_careless"):
            await emit("approval:required", {"tool_name": name, "action": "run", "risk_level": "high"})
        is_granted, reason = await self._decided(name, data["tool_input"])
        if not self._config.get("is_careless"):
            await emit(f"approval:{'granted' if is_granted else 'denied'}", {"tool_name": name, "reason": reason})
        return HookResult(action="continue") if is_granted else HookResult(action="deny", reason=reason)

    async def _decided(self, name: str, tool_input: dict[str, Any]) -> tuple[bool, str]:
        config, timeout = self._config, self._config.get("timeout")
        details = {"tool_input": tool_input} if config.get("tells_input", True) else {}
        request = ApprovalRequest(tool_name=name, action="run", risk_level="high", details=details, timeout=timeout)
        asking = self.provider.request_approval(request)
        if config.get("is_careless"):
            return bool((await asking).approved), "as the provider says"
        try:
            response = await (asyncio.wait_for(asking, timeout) if config.get("keeps_time") else asking)
        except TimeoutError:
            return config.get("default_action") == "allow", "approval timeout"
        except Exception as error:
            return False, f"the provider failed: {error}"
        self.remembered.append(response.remember)
        self.reasons.append(response.reason)
        return response.approved, response.reason or "as the provider says"


class _World:
    """A session with a scripted model, a tool whose calls the default rules ask about, and the module."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tool = PlainTool("run", action="process.exec")
        self.module: _Published
        self.runtime: SessionRuntime

    async def run(self, system: Any, *turns: Any, module: Any = None, session: Any = None, **config: Any) -> str:
        script = self.folder / "scenario.json"
        script.write_text(json.dumps({"turns": [*(turns or ({"tool_calls": [_MAKE]},)), {"text": "end"}]}))
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple", **(session or {})},
            "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
            "hooks": [{"module": "hooks-logging"}],
        }
        prepared = Prepared.from_plan(plan, self.folder / "home", self.folder)
        self.runtime = SessionRuntime(prepared, approval_system=system, environ={})
        coordinator = self.runtime.session.coordinator
        self.module = (module or _Published)(coordinator, **config)
        async with self.runtime:
            await coordinator.mount("tools", self.tool)
            return str(await self.runtime.execute("go"))

    def data(self, *events: str) -> list[dict[str, Any]]:
        return [json.loads(line.raw)["data"] for line in read_log(self.runtime.folder) if line.event in events]

    def deciders(self) -> list[tuple[str | None, dict[str, str]]]:
        return [(one.get("source"), one["answered_by"]) for one in self.data("approval:granted", "approval:denied")]


@pytest.fixture
def world(tmp_path: Path) -> _World:
    """Return a session that was not run yet."""
    return _World(tmp_path)


async def test_yes_is_asked_for_once(world: _World) -> None:
    """One yes answers the module and the kernel, and the log names the person for both."""
    person = _Person("Allow")
    assert await world.run(person) == "end"
    assert person.questions == ["Allow run? run needs approval, risk: high"]
    assert world.tool.inputs == [{"command": "make"}]
    assert world.deciders() == [(None, _ME), ("approval_system", _ME)]


async def test_no_is_one_to_both(world: _World) -> None:
    """A no is not asked about again, nothing runs, and the words of it reach the module."""
    person = _Person("Deny: not today")
    await world.run(person)
    assert (len(person.questions), world.tool.inputs) == (1, [])
    assert world.module.reasons == ["not approved: Deny: not today"]
    assert world.deciders() == [(None, _ME)]


async def test_no_to_the_provider_holds_whatever_the_module_does(world: _World) -> None:
    """A module that goes on although it heard a no does not bring the call through."""
    person = _Person("Deny")

    class Deaf(_Published):
        async def _decided(self, name: str, tool_input: dict[str, Any]) -> tuple[bool, str]:
            await super()._decided(name, tool_input)
            return True, "I do not care"

    await world.run(person, module=Deaf)
    assert (len(person.questions), world.tool.inputs) == (1, [])


async def test_always_is_remembered(world: _World) -> None:
    """The module is told to remember what the person has allowed always, and nothing else."""
    again = {"tool_calls": [{**_MAKE, "id": "c2"}]}
    await world.run(_Person("Allow always", "Allow"), {"tool_calls": [_MAKE]}, again)
    assert world.module.remembered == [True, False]
    assert len(world.tool.inputs) == 2


async def test_each_call_is_asked_for(world: _World) -> None:
    """An answer is for one call: the same one again, under the same id, is asked about again."""
    person = _Person("Allow", "Deny")
    await world.run(person, {"tool_calls": [_MAKE]}, {"tool_calls": [_MAKE]})
    assert (len(person.questions), len(world.tool.inputs)) == (2, 1)


async def test_calls_side_by_side(world: _World) -> None:
    """Of two calls at once each has its own answer."""
    other = {**_MAKE, "id": "c2", "arguments": {"command": "other"}}
    person = _Person("Allow", "Deny")
    await world.run(person, {"tool_calls": [_MAKE, other]})
    assert len(person.questions) == 2
    assert len(world.tool.inputs) == 1


@pytest.mark.parametrize("config", [{}, {"keeps_time": True}, {"default_action": "allow"}, {"is_careless": True}])
async def test_timeout_is_none_of_a_person(world: _World, config: dict[str, Any]) -> None:
    """Silence is told as a timeout, not as a refusal, and lets nothing run, whatever the module makes of it."""
    person = _Person()
    await world.run(person, timeout=0.05, **config)
    assert (len(person.questions), world.tool.inputs) == (1, [])
    (ended,) = [json.loads(line.raw) for line in read_log(world.runtime.folder) if line.event == "tool:error"]
    assert (ended["status"], ended["error"]["type"]) == ("denied", "denied")
    assert "timeout" in json.dumps(ended["error"])
    assert [by for _, by in world.deciders()] == ([] if "is_careless" in config else [{"kind": "timeout"}])


async def test_session_has_a_deadline_too(world: _World) -> None:
    """`session.approval_timeout` bounds the provider's question as it does the kernel's."""
    await world.run(_Person(), session={"approval_timeout": 0.05})
    assert world.tool.inputs == []
    assert world.deciders() == [(None, {"kind": "timeout"})]


async def test_session_that_waits_for_ever(world: _World) -> None:
    """An infinite timeout is none: the request has no timeout, and whoever gives up has met nobody."""
    timeouts: list[float | None] = []

    class Silent(_Person):
        async def decide(self, request: ApprovalRequest) -> Any:
            timeouts.append(request.timeout)
            return await super().decide(request)

    class Impatient(_Published):
        async def _decided(self, name: str, tool_input: dict[str, Any]) -> tuple[bool, str]:
            request = ApprovalRequest(tool_name=name, action="run", risk_level="high")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(self.provider.request_approval(request), 0.05)
            return False, "gave up"

    await world.run(Silent(), module=Impatient, session={"approval_timeout": float("inf")})
    assert (timeouts, world.tool.inputs) == ([None], [])
    assert world.deciders() == [(None, {"kind": "nobody"})]


async def test_system_that_says_so_itself(world: _World) -> None:
    """An approval system that tells of a timeout has told of one."""
    await world.run(_Person(ApprovalTimeoutError("too late")))
    assert world.deciders() == [(None, {"kind": "timeout"})]


async def test_deadline_of_hooks_is_none_for_a_person(world: _World) -> None:
    """Who thinks longer than hooks may take is still asked once, and heard."""
    person = _Slow("Allow")
    await world.run(person, session={"hook_timeout": 0.1})
    assert (len(person.questions), len(world.tool.inputs)) == (1, 1)


class _Slow(_Person):
    async def decide(self, request: ApprovalRequest) -> Any:
        await asyncio.sleep(0.5)
        return await super().decide(request)


@pytest.mark.parametrize("is_careless", [False, True])
async def test_failure_lets_nothing_run(world: _World, is_careless: bool) -> None:
    """An approval system that breaks is a no, also where the module falls over it."""
    await world.run(_Person(OSError("the terminal is gone")), is_careless=is_careless)
    assert world.tool.inputs == []
    assert [by for _, by in world.deciders()] == ([] if is_careless else [{"kind": "failure"}])


async def test_stopping_takes_the_question_back(world: _World) -> None:
    """A session that is stopped while the person is asked runs nothing."""
    person = _Person()
    running = asyncio.ensure_future(world.run(person))
    await person.was_asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert world.tool.inputs == []


_ANSWERS = st.one_of(
    st.sampled_from(["Allow", "allow once", "ALLOW ALWAYS", "Deny", "Escalate", "", "yes", "Allow ", None, 1, True]),
    st.text(max_size=12),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_ANSWERS, min_size=2, max_size=2))
async def test_only_a_yes_is_one(tmp_path_factory: pytest.TempPathFactory, answers: list[Any]) -> None:
    """Whatever is answered: there is one question, and the call runs only when its answer is what the kernel takes
    for a yes.
    """
    world, person = _World(tmp_path_factory.mktemp("only")), _Person(*answers)
    await world.run(person)
    is_yes = isinstance(answers[0], str) and answers[0].lower() in ("allow", "allow once", "allow always")
    assert len(person.questions) == 1
    assert bool(world.tool.inputs) is is_yes


class _AfterTheKernel(_Published):
    """Come after a hook that asks the kernel about the call, and does not mind what it says."""

    def __init__(self, coordinator: Any, **config: Any) -> None:
        super().__init__(coordinator, **config)
        coordinator.hooks.register("tool:pre", self._ask_kernel, priority=-20, name="earlier")

    async def _ask_kernel(self, event: str, data: dict[str, Any]) -> None:
        details = {key: data[key] for key in ("tool_name", "tool_input", "tool_call_id")}
        await self._coordinator.authorize("process.exec", details)


async def test_answer_to_the_kernel_is_one_to_the_provider(world: _World) -> None:
    """What the kernel was allowed for a call is not asked for the module; an *always* was about the kernel's rule."""
    person = _Person("Allow always", "Allow")
    await world.run(person, module=_AfterTheKernel)
    assert person.questions[0].startswith("Allow process.exec?")
    # The loop asks the kernel itself once more, about the same: that is not the module's question.
    assert not [one for one in person.questions if one.startswith("Allow run?")]
    assert (world.module.remembered, len(world.tool.inputs)) == ([False], 1)


async def test_no_to_the_kernel_is_one_to_the_provider(world: _World) -> None:
    """What the kernel was refused is not asked for the module, and does not run."""
    person = _Person("Deny", "Allow", "Allow")
    await world.run(person, module=_AfterTheKernel)
    assert (len(person.questions), world.tool.inputs) == (1, [])


async def test_changed_input_is_another_question(world: _World) -> None:
    """When a hook changes the input after the provider's yes, the kernel asks about what will run."""
    person = _Person("Allow", "Deny")

    class Changing(_Published):
        def __init__(self, coordinator: Any, **more: Any) -> None:
            super().__init__(coordinator, **more)
            coordinator.hooks.register("tool:pre", self._change, priority=5, name="changing")

        def _change(self, event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(action="modify", data={**data, "tool_input": {"command": "rm -r x"}})

    await world.run(person, module=Changing)
    assert (len(person.questions), world.tool.inputs) == (2, [])


async def test_what_the_call_does_not_show_is_told(world: _World) -> None:
    """A module that asks about another input than the call came with says so in its question."""
    person = _Person("Deny")

    class Earlier(_Published):
        def __init__(self, coordinator: Any, **more: Any) -> None:
            super().__init__(coordinator, **more)
            coordinator.hooks.register("tool:pre", self._change, priority=-50, name="changing")

        def _change(self, event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(action="modify", data={**data, "tool_input": {"command": "rm -r x"}})

    await world.run(person, module=Earlier)
    (question,) = person.questions
    assert question.endswith('{"tool_input": {"command": "rm -r x"}}')


async def test_deny_of_a_rule_is_absolute(world: _World) -> None:
    """A yes to the module lifts no denial of the kernel's policies."""

    class Never(_Published):
        def __init__(self, coordinator: Any, **config: Any) -> None:
            super().__init__(coordinator, **config)
            coordinator.register_policy("never", lambda action, details: ("deny", "never"))

    await world.run(_Person("Allow"), module=Never)
    assert world.tool.inputs == []
    assert world.deciders() == [(None, _ME), ("never", {"kind": "policy", "policy": "never"})]


async def test_nobody_to_ask(world: _World) -> None:
    """Without an approval system there is no provider: the module denies, as the kernel would."""
    await world.run(None)
    assert (world.module.provider, world.tool.inputs) == (None, [])


async def test_synchronous_systems_are_asked_too(world: _World) -> None:
    """An approval system may answer at once, as it may the kernel."""

    class AtOnce:
        def request_approval(self, *question: Any) -> str:
            return "Allow"

    await world.run(AtOnce())
    assert len(world.tool.inputs) == 1


async def test_module_that_takes_no_provider(world: _World) -> None:
    """A capability that fails does not keep the session from starting; the module goes on denying."""

    class Broken(_Published):
        def _register(self, provider: Any) -> None:
            raise TypeError("not that one")

    assert await world.run(_Person("Allow"), module=Broken) == "end"
    assert world.tool.inputs == []
    assert any(b"not that one" in line.raw for line in read_log(world.runtime.folder))


async def test_own_module_asks_once(tmp_path: Path) -> None:
    """hooks-approval, which offers the same capability, asks by the kernel alone, and as it did."""
    script = tmp_path / "scenario.json"
    script.write_text(json.dumps({"turns": [{"tool_calls": [_MAKE]}, {"text": "end"}]}))
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
        "hooks": [{"module": "hooks-approval"}, {"module": "hooks-logging"}],
    }
    person, tool = _Person("Allow"), PlainTool("run", action="process.exec")
    runtime = SessionRuntime(Prepared.from_plan(plan, tmp_path / "home", tmp_path), approval_system=person, environ={})
    async with runtime:
        await runtime.session.coordinator.mount("tools", tool)
        assert await runtime.execute("go") == "end"
    assert len(person.questions) == 1
    assert person.questions[0].startswith("Allow process.exec?")
    assert len(tool.inputs) == 1
