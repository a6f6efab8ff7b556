"""Hooks that ask the model: its answer counts, anything else is no consent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

CALL = [("bash", {"command": "ls"})]


def hooks(prompt: str = "Is $ARGUMENTS fine?", hook_event: str = "PreToolUse", **facts: Any) -> dict[str, Any]:
    return {hook_event: [{"hooks": [{"type": "prompt", "prompt": prompt, **facts}]}]}


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        ('{"ok": true}', True),
        ('Sure:\n```json\n{"ok": true}\n```', True),
        ('{"decision": "approve"}', True),
        ('{"ok": false, "reason": "it lists files"}', False),
        ('{"decision": "block", "reason": "it lists files"}', False),
    ],
)
async def test_the_model_decides(make_rig: Any, said: str, runs: bool) -> None:
    """The first provider is asked, briefly, with the event in the question; its answer is the verdict."""
    rig = await make_rig(hooks(), [CALL, said, "done"])
    assert await rig.run() == "done"
    asked = rig.provider.requests[1]
    assert asked.max_output_tokens == 256
    assert asked.tools is None
    assert '"command": "ls"' in asked.messages[-1].content
    assert asked.messages[-1].content.startswith("Is {")
    assert len(rig.tools["bash"].inputs) == (1 if runs else 0)
    assert rig.reports() == [("hook-shell:ran", "ok", "continue" if runs else "deny")]
    assert ("it lists files" in (await rig.texts("tool"))[0]) == (not runs)


@pytest.mark.parametrize("said", ["yes", "{}", '{"ok": "true"}', '{"ok": tru', '{"decision": "sure"}', "[]"])
async def test_an_answer_that_is_none(make_rig: Any, said: str) -> None:
    """What the model must not say is no consent."""
    rig = await make_rig(hooks(), [CALL, said, "done"])
    await rig.run()
    assert rig.tools["bash"].inputs == []
    assert rig.reports() == [("hook-shell:failed", "error", "deny")]


async def test_a_model_that_fails(make_rig: Any) -> None:
    """A provider that raises is no consent, where there is something to consent to."""
    rig = await make_rig(hooks(), [CALL, "x", "done"])

    async def complete(request: Any, **_: Any) -> Any:
        if request.max_output_tokens == 256:
            raise ConnectionError("no line")
        return await answer(request)

    answer, rig.provider.complete = rig.provider.complete, complete
    await rig.run()
    assert rig.tools["bash"].inputs == []
    assert "no line" in rig.heard("hook-shell:failed")[0]["error"]


async def test_a_model_that_never_answers(make_rig: Any) -> None:
    """A provider that hangs is late, and is left."""
    rig = await make_rig(hooks(timeout=0.2), [CALL, "x", "done"])

    async def complete(request: Any, **_: Any) -> Any:
        if request.max_output_tokens == 256:
            await asyncio.Event().wait()
        return await answer(request)

    answer, rig.provider.complete = rig.provider.complete, complete
    async with asyncio.timeout(60):
        await rig.run()
    assert rig.reports() == [("hook-shell:timeout", "timeout", "deny")]


@pytest.mark.parametrize("hook_event", ["PreToolUse", "PostToolUse"])
async def test_an_exhausted_budget_sends_no_request(make_rig: Any, hook_event: str) -> None:
    """When the budget is used up the model is not asked, and what waits for its answer does not happen."""

    class Budget:
        def check(self) -> str | None:
            return "usd: 1 of 1 is spent"

    rig = await make_rig(hooks(hook_event=hook_event), [CALL, "done"])
    rig.session.coordinator.register_capability("session.budget", Budget())
    await rig.run()
    assert len(rig.provider.requests) == 2
    [report] = rig.heard("hook-shell:failed")
    is_gate = hook_event == "PreToolUse"
    assert (report["cause"], report["verdict"]) == ("budget", "deny" if is_gate else "continue")
    assert "is spent" in report["error"]


async def test_an_event_too_large_for_a_question(make_rig: Any) -> None:
    """What a model is not shown whole, it cannot have consented to."""
    rig = await make_rig(hooks(), [[("bash", {"command": "x" * 30_000})], "done"])
    await rig.run()
    assert rig.tools["bash"].inputs == []
    assert rig.reports() == [("hook-shell:failed", "error", "deny")]
    assert len(rig.provider.requests) == 2


async def test_the_question_has_a_span_of_its_own(make_rig: Any) -> None:
    """What the question costs can be told from what the turn costs."""
    rig = await make_rig(hooks(), [CALL, '{"ok": true}', "done"])
    spans: list[str | None] = []
    answer = rig.provider.complete

    async def complete(request: Any, **_: Any) -> Any:
        spans.append(rig.session.coordinator.span_id)
        return await answer(request)

    rig.provider.complete = complete
    await rig.run()
    assert len(set(spans)) == 3
