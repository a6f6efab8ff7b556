"""Merging what several handlers want to add to the conversation."""

from __future__ import annotations

from typing import Any

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import ContextInjection, HookResult


def inject(text: str | None = None, **fields: Any) -> HookResult:
    return HookResult(action="inject_context", context_injection=text, **fields)


def answer(hooks: HookRegistry, name: str, result: Any) -> None:
    hooks.register("x:y", lambda event, data: result, name=name)


async def test_one_injection_is_returned_whole(hooks: HookRegistry) -> None:
    """A single injection keeps everything it came with, plus its item in the list."""
    answer(
        hooks,
        "only",
        inject(
            "text",
            data={"a": 1},
            reason="why",
            user_message="m",
            user_message_level="warning",
            context_injection_role="user",
            ephemeral=True,
            append_to_last_tool_result=True,
            suppress_output=True,
        ),
    )
    result = await hooks.emit("x:y", {})
    assert result == inject(
        "text",
        data={"a": 1},
        reason="why",
        user_message="m",
        user_message_level="warning",
        context_injection_role="user",
        ephemeral=True,
        append_to_last_tool_result=True,
        suppress_output=True,
        context_injections=[
            ContextInjection(
                content="text",
                role="user",
                ephemeral=True,
                append_to_last_tool_result=True,
                hook_name="only",
                event="x:y",
            )
        ],
    )


async def test_origin_cannot_be_forged(hooks: HookRegistry) -> None:
    """Every item names the handler as registered and the event as emitted, whatever it claimed."""
    claims = [ContextInjection(content="c", hook_name="somebody", event="other:event")]
    answer(hooks, "real", inject(context_injections=claims))
    answer(hooks, "second", {"action": "inject_context", "context_injections": [{"content": "d", "hook_name": "x"}]})
    result = await hooks.emit("x:y", {})
    origins = [(item.content, item.hook_name, item.event) for item in result.context_injections]
    assert origins == [("c", "real", "x:y"), ("d", "second", "x:y")]
    assert claims[0].hook_name == "somebody"


async def test_list_wins_over_scalar(hooks: HookRegistry) -> None:
    """A handler with a list of its own contributes all its items, and its scalar text does not count."""
    items = [
        ContextInjection(content="1", role="assistant", ephemeral=True),
        ContextInjection(content="2", append_to_last_tool_result=True),
    ]
    answer(hooks, "lister", inject("scalar", context_injections=items))
    result = await hooks.emit("x:y", {})
    assert (result.context_injection, result.context_injection_role) == ("1\n\n2", "assistant")
    assert (result.ephemeral, result.append_to_last_tool_result) == (True, True)
    answer(hooks, "other", inject("3"))
    merged = await hooks.emit("x:y", {})
    assert [item.content for item in merged.context_injections] == ["1", "2", "3"]
    assert merged.context_injection == "1\n\n2\n\n3"


async def test_merging_does_not_change_the_handlers_own(hooks: HookRegistry) -> None:
    """The results that handlers returned stay theirs, emit after emit."""
    own = inject("text", data={"list": [1]})
    answer(hooks, "keeper", own)
    for _ in range(3):
        result = await hooks.emit("x:y", {})
        assert len(result.context_injections) == 1
        result.context_injections.append(ContextInjection(content="intruder"))
        assert result.data is not None
        result.data["list"].append(2)
    assert own == inject("text", data={"list": [1]})
