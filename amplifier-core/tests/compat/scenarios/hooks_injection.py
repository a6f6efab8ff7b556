"""emit(): how several handlers' injections become one."""

from __future__ import annotations

from typing import Any

from amplifier_core import ContextInjection, HookResult

from .base import Stage, scenario
from .hooks_fold import folded


def inject(text: str | None, **fields: Any) -> HookResult:
    """Make an injection."""
    return HookResult(action="inject_context", context_injection=text, **fields)


@scenario
async def one(stage: Stage) -> Any:
    """A single injection comes back whole."""
    return await folded(inject("only", reason="r", user_message="m", data={"x": 1}, ephemeral=True))


@scenario
async def two(stage: Stage) -> Any:
    """Texts are joined; role, ephemeral and suppress_output come from the first."""
    first = inject(
        "one", context_injection_role="user", ephemeral=True, suppress_output=True, reason="a", user_message="u"
    )
    second = inject("two", context_injection_role="assistant", append_to_last_tool_result=True, data={"x": 1})
    return await folded(first, second)


@scenario
async def empty_texts(stage: Stage) -> Any:
    """An empty text counts, none does not."""
    return [
        await folded(inject("")),
        await folded(inject(None)),
        await folded(inject(None), inject("b")),
        await folded(inject(""), inject("b")),
    ]


@scenario
async def own_list(stage: Stage) -> Any:
    """A handler's own list wins over its scalar; names and events are overwritten."""
    items = [
        ContextInjection(content="a", hook_name="forged", event="forged", role="user"),
        ContextInjection(content="b", ephemeral=True),
    ]
    return [
        await folded(inject("scalar", context_injections=items)),
        await folded(inject(None, context_injections=items), inject("c")),
    ]


@scenario
async def empty_list(stage: Stage) -> Any:
    """An empty list and no text is nothing."""
    return [await folded(inject(None, context_injections=[])), await folded(inject("t", context_injections=[]))]


@scenario
async def deny_and_ask_carry_no_list(stage: Stage) -> Any:
    """A denial or a question after an injection."""
    deny = HookResult(action="deny", reason="n")
    ask = HookResult(action="ask_user", approval_prompt="p")
    return [await folded(inject("a"), inject("b"), deny), await folded(inject("a"), inject("b"), ask)]


@scenario
async def three_with_one_modify(stage: Stage) -> Any:
    """Injections survive a modification between them; the modified data does not."""
    return await folded(
        inject("a"), HookResult(action="modify", data={"m": 1}), inject("b"), inject("c", ephemeral=True)
    )
