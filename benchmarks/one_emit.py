"""The program whose exit status is counted: a session, one event to one handler, and a clean end."""

import asyncio

from amplifier_core import AmplifierSession, HookResult

PLAN = {"session": {"orchestrator": {"module": "loop-bench"}, "context": {"module": "context-bench"}}}


async def main() -> None:
    """Emit one event in a session and check that its handler ran."""
    session = AmplifierSession(PLAN)
    seen = []

    async def handler(event: str, data: dict[str, object]) -> HookResult:
        seen.append(data["tool_name"])
        return HookResult(action="continue")

    session.coordinator.hooks.register("tool:pre", handler, name="one")
    result = await session.coordinator.hooks.emit("tool:pre", {"tool_name": "bash"})
    await session.cleanup()
    if seen != ["bash"] or result.action != "continue":
        raise SystemExit(f"the handler saw {seen} and emit answered {result.action!r}")


asyncio.run(main())
