"""Run a shell command of a command file as the model would: by the tool `bash`, with everything that guards it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from amplifier_core.events import TOOL_POST, TOOL_PRE
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.tasks import TimedOut, run_bounded
from amplifier_kit.guard.authorization import action_of, authorize, question_of

__all__ = ["ShellError", "run_shell"]

_TOOL: Final = "bash"


class ShellError(Exception):
    """A shell command was not run, or failed; the message says why."""


async def run_shell(coordinator: Any, line: str, timeout: float) -> str:
    """Return the output of a command; raises ShellError.

    Hooks on `tool:pre`, such as modes, may deny or change it, and the session is asked about it as it will run.
    """
    tool = (coordinator.get("tools") or {}).get(_TOOL)
    if tool is None:
        raise ShellError(f"`{line}` cannot be run: this session has no tool {_TOOL}")
    call: dict[str, Any] = {
        "tool_name": _TOOL,
        "tool_input": {"command": line, "timeout": timeout},
        "tool_call_id": f"slash-{uuid4().hex}",
    }
    verdict = await coordinator.hooks.emit(TOOL_PRE, call)
    if verdict.action in ("deny", "ask_user"):
        raise ShellError(f"`{line}` was denied: {verdict.reason or 'a hook denied it'}")
    changed = verdict.data.get("tool_input") if isinstance(verdict.data, Mapping) else None
    if isinstance(changed, Mapping):
        call["tool_input"] = dict(changed)
    permission = await authorize(coordinator, action_of(tool, _TOOL, call["tool_input"]), question_of(tool, call))
    if not permission.granted:
        raise ShellError(f"`{line}` was denied: {permission.reason}")

    async def execute() -> Any:
        return await maybe_await(tool.execute(call["tool_input"]))

    try:
        result = await run_bounded(execute, timeout=timeout + 5)  # the tool has its own, which ends the command
    except TimedOut as error:
        raise ShellError(f"`{line}` took longer than {timeout:g} s") from error
    await coordinator.hooks.emit(TOOL_POST, {**call, "result": result})
    output = result.output if isinstance(result.output, Mapping) else {"stdout": str(result.output or "")}
    if not result.success:
        reason = (result.error or {}).get("message") or output.get("stderr") or "it failed"
        raise ShellError(f"`{line}` failed: {str(reason).strip()[:500]}")
    return str(output.get("stdout") or "").rstrip("\n")
