"""The work of single steps: commands through the session's `bash` tool, agents through the app's `session.spawn`.

Both are judged as if the model had asked for them: a command passes hooks and policies as a call of `bash`, with the
text that will run; an agent needs the permission `session.spawn`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.delegation.child_run import ChildEvents, ChildRun
from amplifier_kit.engine.delegation.request import AgentDirectory, DelegationConfig, DelegationError, Dispatch
from amplifier_kit.engine.delegation.request import DelegationRequest as Request
from amplifier_kit.engine.delegation.session_ids import child_session_id, delegation_depth
from amplifier_kit.engine.loop.reply import Call
from amplifier_kit.engine.loop.tool_calls import run_calls
from amplifier_kit.guard.authorization import authorize
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_recipes.expressions import substitute
from amplifier_module_tool_recipes.recipe import Orchestrator, RateLimiting, RecipeError, Step

AGENT_EVENTS: Final = ChildEvents(
    spawned="recipe:agent_spawned",
    resumed="recipe:agent_spawned",  # a resumed recipe asks the app for the same child again
    completed="recipe:agent_completed",
    cancelled="recipe:agent_cancelled",
    error="recipe:agent_error",
)
TOOL: Final = "recipes"
_LONGEST_COMMAND_SECONDS: Final = 3600
_LONGEST_ERROR: Final = 2_000


class StepError(RecipeError):
    """A step failed; one that may succeed when it is tried again is `repeatable`."""

    def __init__(self, code: str, message: str, *, repeatable: bool = False, result: Any = None) -> None:
        super().__init__(code, message[:_LONGEST_ERROR])
        self.repeatable = repeatable
        self.result = result


# -- commands --


class CommandResult(NamedTuple):
    """What a command printed to its standard output, and its exit code."""

    text: str
    exit_code: int


async def run_command(coordinator: Any, step: Step, values: Mapping[str, Any]) -> CommandResult:
    """Run a command with the `bash` tool; raises StepError when it was not run, or failed."""
    given = {"command": _command(step, values), "timeout": min(step.timeout, _LONGEST_COMMAND_SECONDS)}
    call = Call(f"recipe-{os.urandom(8).hex()}", "bash", given)
    [result] = await run_calls(coordinator, [call], injects=False)
    output = _json_mapping(result.content)
    code = output.get("returncode")
    if not isinstance(code, int):
        timed_out = output.get("message") or result.content
        raise StepError("command_not_done", f"The command did not finish: {timed_out}")
    text = str(output.get("stdout") or "").rstrip("\n")
    if code != 0:
        reason = str(output.get("message") or output.get("stderr") or text).strip()
        message = f"The command failed with exit code {code}: {reason}"
        raise StepError("command_failed", message, repeatable=True, result=CommandResult(text, code))
    return CommandResult(text, code)


def _command(step: Step, values: Mapping[str, Any]) -> str:
    """Return the text to run: folder and variables are part of it, so that rules judge them too."""
    lines = [f"cd -- {shlex.quote(substitute(step.cwd, values))} || exit"] if step.cwd else []
    variables = (step.env or {}).items()
    lines += [f"export {name}={shlex.quote(substitute(value, values))}" for name, value in variables]
    return "\n".join([*lines, substitute(step.command or "", values)])


def _json_mapping(content: Any) -> dict[str, Any]:
    try:
        found = json.loads(content) if isinstance(content, str) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# -- agents --


class Pace:
    """The rate limit of agent steps in one recipe session."""

    def __init__(self, limits: RateLimiting | None) -> None:
        self._limits = limits or RateLimiting()
        most = self._limits.max_concurrent_llm
        self._slots = asyncio.Semaphore(most) if most else None
        self._starting = asyncio.Lock()
        self._last_start = float("-inf")
        self._delay_ms = 0.0
        self._successes = 0

    async def run(self, work: Any) -> Any:
        """Return what `work()` returns, when it is its turn."""
        if self._slots is None:
            return await self._run(work)
        async with self._slots:
            return await self._run(work)

    async def _run(self, work: Any) -> Any:
        async with self._starting:
            pause = self._last_start + max(self._limits.min_delay_ms, self._delay_ms) / 1000 - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            self._last_start = time.monotonic()
        try:
            result = await work()
        except StepError as error:
            if "rate_limit" in error.code:
                self._slow_down()
            raise
        self._succeed()
        return result

    def _slow_down(self) -> None:
        backoff = self._limits.backoff
        if backoff is not None and backoff.enabled:
            self._successes = 0
            longer = self._delay_ms * backoff.multiplier if self._delay_ms else backoff.initial_delay_ms
            self._delay_ms = min(longer, backoff.max_delay_ms)

    def _succeed(self) -> None:
        self._successes += 1
        backoff = self._limits.backoff
        if backoff is not None and self._successes >= backoff.reset_after_success:
            self._delay_ms = 0.0


class AgentStep(NamedTuple):
    """One agent step, with the ids that make a repeated one find its child."""

    step: Step
    #: Says which recipe session, step and iteration it is, and which attempt.
    key: str
    orchestrator: Orchestrator | None

    async def run(self, coordinator: Any, values: Mapping[str, Any]) -> str:
        """Return the agent's answer; raises StepError when there is none."""
        step = self.step
        prompt = substitute(step.prompt or "", values)
        instruction = f"MODE: {step.mode}\n\n{prompt}" if step.mode else prompt
        try:
            agent = AgentDirectory.of(coordinator).find(substitute(step.agent or "", values))
            await _permit(coordinator, agent, instruction)
            preferences = await _preferences(coordinator, step, values)
            dispatch = Dispatch(self.key, Dispatch.current(coordinator).parallel_group_id)
            request = Request(
                agent=agent,
                instruction=instruction,
                session_id=await _child_id(coordinator, agent, self.key, instruction),
                dispatch=dispatch,
                provider_preferences=preferences,
                orchestrator_config=dict(self.orchestrator.config) if self.orchestrator else None,
                use_subprocess=step.spawn_mode == "subprocess",
                details={"step_id": step.id},
            )
            settings = DelegationConfig(timeout=float(step.timeout), exclude_tools=("tool-recipes",))
            if delegation_depth(coordinator) >= settings.max_recursion_depth:
                raise DelegationError("depth_exceeded", "Agents are nested too deep to start another one")
        except DelegationError as error:
            raise StepError(error.code, str(error)) from error
        run = ChildRun(coordinator=coordinator, tool_name=TOOL, request=request, events=AGENT_EVENTS, settings=settings)
        outcome = await run.to_end()
        if outcome.error is not None:
            raise StepError(outcome.error.code, str(outcome.error), repeatable=outcome.status != "cancelled")
        return outcome.response


async def _child_id(coordinator: Any, agent: str, key: str, instruction: str) -> str:
    ask = getattr(coordinator.get_capability("session.spawn"), "child_id", None)
    if callable(ask):
        return str(await maybe_await(ask(agent, key, instruction)))
    return child_session_id(coordinator.session_id, key, agent)


async def _permit(coordinator: Any, agent: str, instruction: str) -> None:
    given = {"agent": agent, "instruction": instruction}
    permission = await authorize(coordinator, "session.spawn", {"tool_name": TOOL, "tool_input": given})
    if not permission.granted:
        raise StepError("denied", f"Starting the agent {agent!r} is not allowed: {permission.reason}")


async def _preferences(coordinator: Any, step: Step, values: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the models of an agent: named ones, else those of its role."""
    if step.provider:
        model = {"model": substitute(step.model, values)} if step.model else {}
        return [{"provider": substitute(step.provider, values), **model}]
    if step.provider_preferences:
        return [preference.model_dump(exclude_defaults=True) for preference in step.provider_preferences]
    resolver = coordinator.get_capability("model_role_resolver") if step.model_role else None
    if resolver is None:
        return None  # a role is a wish
    roles = [step.model_role] if isinstance(step.model_role, str) else step.model_role or []
    for role in roles:
        found = await maybe_await(resolver.resolve(role))
        # Modules return mappings or objects with `to_dict`.
        if preferences := [one.to_dict() if hasattr(one, "to_dict") else dict(one) for one in found or ()]:
            return preferences
    return None
