"""Handlers share nothing: not with each other, not with the caller, not with the result."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import ContextInjection, HookResult

#: No deadline: tests never judge a time.
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
_payloads = st.dictionaries(st.text(max_size=3), _json, max_size=4)
_actions = st.sampled_from(["nothing", "continue", "modify", "inject_context", "ask_user", "deny"])


def containers(value: Any) -> Iterator[int]:
    """Yield the identity of every mutable part of `value`, itself included."""
    if isinstance(value, (dict, list)):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)
    elif isinstance(value, (HookResult, ContextInjection)):
        yield id(value)
        for item in value.__dict__.values():
            yield from containers(item)


def vandalise(value: Any) -> None:
    """Change everything in `value` that can be changed."""
    if isinstance(value, dict):
        for item in list(value.values()):
            vandalise(item)
        value.clear()
        value["vandal"] = "was here"
    elif isinstance(value, list):
        for item in value:
            vandalise(item)
        value.append("vandal was here")
    elif isinstance(value, (HookResult, ContextInjection)):
        for item in value.__dict__.values():
            vandalise(item)


class Vandal:
    """Return a verdict, destroy what was received, and keep everything to destroy it again later."""

    def __init__(self, action: str, payload: dict[str, Any], later: bool) -> None:
        self.action = action
        self.payload = payload
        self.later = later
        self.saw: Any = None
        self.kept: list[Any] = []

    def __call__(self, event: str, data: Any) -> Any:
        return self.slowly(data) if self.later else self.act(data)

    async def slowly(self, data: Any) -> Any:
        await asyncio.sleep(0)
        result = self.act(data)
        await asyncio.sleep(0)
        return result

    def act(self, data: Any) -> Any:
        self.saw = copy.deepcopy(data)
        self.kept.append(data)
        if self.action == "nothing":
            vandalise(data)
            return None
        result = HookResult(
            action=self.action,
            data=copy.deepcopy(self.payload),
            context_injection="text",
            approval_options=["Allow"],
            context_injections=[ContextInjection(content="item")],
        )
        if self.action != "modify":
            vandalise(data)
        self.kept.append(result)
        return result


@unhurried
@given(_payloads, st.lists(st.tuples(_actions, _payloads, st.booleans()), min_size=1, max_size=4), _payloads)
def test_handlers_share_nothing(
    payload: dict[str, Any], script: list[tuple[str, dict[str, Any], bool]], defaults: dict[str, Any]
) -> None:
    """No handler sees another's edits, the caller's data is not changed, and the result shares nothing with anyone."""
    vandals = [Vandal(*part) for part in script]
    before = copy.deepcopy(payload)

    async def main() -> HookResult:
        hooks = HookRegistry()
        hooks._defaults = {f"default {key}": value for key, value in defaults.items()}
        for vandal in vandals:
            hooks.register("x:y", vandal)
        return await hooks.emit("x:y", payload)

    result = asyncio.run(main())
    assert payload == before
    expected: Any = None
    for vandal in vandals:
        if vandal.saw is None:
            break  # a handler denied
        if expected is None:
            expected = {**{f"default {key}": value for key, value in defaults.items()}, **before}
            expected["timestamp"] = vandal.saw["timestamp"]
        assert vandal.saw == expected
        if vandal.action == "modify":
            expected = vandal.payload
    if result.action == "continue":
        assert result.data == expected

    shown = result.model_dump_json()
    mine = set(containers(result))
    for vandal in vandals:
        for kept in vandal.kept:
            assert not mine & set(containers(kept))
            vandalise(kept)
    assert not mine & set(containers(payload))
    vandalise(payload)
    assert result.model_dump_json() == shown
