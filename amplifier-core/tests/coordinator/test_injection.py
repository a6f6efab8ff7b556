"""What process_hook_result does with injections and messages."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookResult, ModuleCoordinator
from amplifier_core.models import ContextInjection


class Context:
    """Keep what is added, at once or later."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


class SyncContext(Context):
    """Keep what is added at once."""

    def add_message(self, message: dict[str, Any]) -> None:  # type: ignore[override]
        self.messages.append(message)


class Display:
    """Note what is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[Any, ...]] = []

    def show_message(self, *arguments: Any) -> None:
        self.shown.append(arguments)


class Setup:
    """A coordinator with a context and a display."""

    def __init__(self, context: Any = None, **section: Any) -> None:
        owner = SimpleNamespace(session_id="s", parent_id=None, config={"session": section})
        self.display = Display()
        self.kernel = ModuleCoordinator(owner, None, self.display)
        self.context = context or Context()
        self.kernel.mount_points["context"] = self.context

    async def process(self, **fields: Any) -> HookResult:
        result = HookResult(**fields)
        return await self.kernel.process_hook_result(result, "tool:post", "linter")

    @property
    def stored(self) -> list[tuple[str, str]]:
        return [(message["role"], message["content"]) for message in self.context.messages]


def item(content: str, **fields: Any) -> ContextInjection:
    """Return one injection of a list."""
    return ContextInjection(content=content, **fields)


@pytest.mark.parametrize("context", [Context, SyncContext])
async def test_an_injection_is_stored_with_its_origin(context: type[Context]) -> None:
    """The context gets role, text and where it came from; add_message may be sync or async."""
    setup = Setup(context())
    await setup.process(action="inject_context", context_injection="lint failed", context_injection_role="user")

    [message] = setup.context.messages
    stamp = datetime.fromisoformat(message["metadata"].pop("timestamp"))
    assert stamp.utcoffset() == timedelta(0)
    assert message == {
        "role": "user",
        "content": "lint failed",
        "metadata": {
            "source": "hook",
            "hook_name": "linter",
            "event": "tool:post",
            "requested_role": "user",
            "ephemeral": False,
            "persisted": True,
        },
    }


async def test_a_persisted_injection_is_consumed() -> None:
    """What is left is a new result that continues, its injection fields reset and everything else kept."""
    setup = Setup()
    result = HookResult(
        action="inject_context",
        context_injection="text",
        context_injection_role="user",
        data={"a": 1},
        reason="why",
        user_message="shown",
        user_message_level="warning",
        user_message_source="me",
        suppress_output=True,
    )
    left = await setup.kernel.process_hook_result(result, "e", "h")

    assert left is not result
    assert left == HookResult(
        data={"a": 1},
        reason="why",
        user_message="shown",
        user_message_level="warning",
        user_message_source="me",
        suppress_output=True,
    )
    assert result.context_injection == "text"


async def test_an_ephemeral_injection_is_left_for_the_orchestrator() -> None:
    """It is counted but not stored, and comes back sanitized, as scalars and as a list of one."""
    setup = Setup()
    left = await setup.process(
        action="inject_context",
        context_injection="now\x00 or never",
        context_injection_role="assistant",
        ephemeral=True,
        append_to_last_tool_result=True,
        reason="why",
    )

    assert setup.stored == []
    assert setup.kernel._current_turn_injections == len("now or never") // 4
    expected = item(
        "now or never",
        role="assistant",
        ephemeral=True,
        append_to_last_tool_result=True,
        hook_name="linter",
        event="tool:post",
    )
    assert left == HookResult(
        action="inject_context",
        context_injection="now or never",
        context_injection_role="assistant",
        ephemeral=True,
        append_to_last_tool_result=True,
        reason="why",
        context_injections=[expected],
    )


@pytest.mark.parametrize("text", [None, "", "\x00\ud800", "\x1b"])
async def test_an_empty_injection_is_no_injection(text: str | None) -> None:
    """Nothing is stored or counted when no text is left after sanitizing, and the result continues."""
    setup = Setup()
    left = await setup.process(action="inject_context", context_injection=text)

    assert setup.stored == []
    assert setup.kernel._current_turn_injections == 0
    assert left == HookResult()


@pytest.mark.parametrize("action", ["continue", "deny", "modify"])
async def test_text_without_the_action_is_not_injected(action: str) -> None:
    """Only inject_context injects; other results come back as the same object."""
    setup = Setup()
    result = HookResult(action=action, context_injection="text")

    assert await setup.kernel.process_hook_result(result, "e", "h") is result
    assert setup.stored == []


async def test_text_is_sanitized_before_it_is_stored() -> None:
    """Control characters and surrogates go; tabs, line ends and everything readable stay."""
    setup = Setup()
    await setup.process(action="inject_context", context_injection="a\x07\tb\r\nc\x9f\ud812é🙂")

    assert setup.stored == [("system", "a\tb\r\ncé🙂")]


async def test_the_size_limit_refuses_before_anything_happens() -> None:
    """An injection over the limit raises; nothing is displayed, stored or counted."""
    setup = Setup(injection_size_limit=5)
    with pytest.raises(ValueError, match=r"^Context injection exceeds 5 characters$"):
        await setup.process(action="inject_context", context_injection="123456", user_message="hello")

    assert setup.stored == []
    assert setup.display.shown == []
    assert setup.kernel._current_turn_injections == 0


async def test_the_size_limit_counts_sanitized_characters() -> None:
    """What is stripped does not count, and exactly the limit is fine."""
    setup = Setup(injection_size_limit=5)
    await setup.process(action="inject_context", context_injection="\x00\x0012345\x00")

    assert setup.stored == [("system", "12345")]


async def test_a_limit_of_zero_allows_nothing() -> None:
    """Zero is a limit, not the absence of one."""
    with pytest.raises(ValueError, match="exceeds 0 characters"):
        await Setup(injection_size_limit=0).process(action="inject_context", context_injection="x")


async def test_over_the_budget_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """More tokens than the turn's budget are injected all the same, with a warning that gives the numbers."""
    setup = Setup(injection_budget_per_turn=2)
    with caplog.at_level(logging.WARNING):
        await setup.process(action="inject_context", context_injection="x" * 8)
        assert "budget" not in caplog.text
        await setup.process(action="inject_context", context_injection="y" * 4)

    assert "Hook injection budget exceeded (hook=linter, current=2, attempted=1, budget=2)" in caplog.text
    assert len(setup.stored) == 2
    assert setup.kernel._current_turn_injections == 3


async def test_tokens_are_characters_by_four() -> None:
    """The counter adds whole tokens per injection."""
    setup = Setup()
    for text in ("123", "1234567", "12345678"):
        await setup.process(action="inject_context", context_injection=text)

    assert setup.kernel._current_turn_injections == 0 + 1 + 2


@pytest.mark.parametrize("context", [None, object()])
async def test_without_a_context_nothing_is_stored(context: Any, caplog: pytest.LogCaptureFixture) -> None:
    """No context, or one that takes no messages, is no error; the injection is counted and logged either way."""
    setup = Setup()
    setup.kernel.mount_points["context"] = context
    with caplog.at_level(logging.INFO):
        left = await setup.process(action="inject_context", context_injection="12345678")

    assert left == HookResult()
    assert setup.kernel._current_turn_injections == 2
    assert "linter" in caplog.text


async def test_a_failing_context_is_heard() -> None:
    """What add_message raises reaches the caller."""

    class Full(Context):
        async def add_message(self, message: dict[str, Any]) -> None:
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await Setup(Full()).process(action="inject_context", context_injection="text")


async def test_each_injection_of_a_list_goes_its_own_way() -> None:
    """The list wins over the scalars; items keep role, hook, event and fate, and empty ones are dropped."""
    setup = Setup()
    left = await setup.process(
        action="inject_context",
        context_injection="ignored",
        context_injections=[
            item("stored", role="user", hook_name="one", event="e1"),
            item(""),
            item("\x00"),
            item("now", role="assistant", ephemeral=True, hook_name="two", event="e2"),
            item("also\x00 stored"),
            item("then", ephemeral=True, append_to_last_tool_result=True),
        ],
    )

    assert setup.stored == [("user", "stored"), ("system", "also stored")]
    origins = [(m["metadata"]["hook_name"], m["metadata"]["event"]) for m in setup.context.messages]
    assert origins == [("one", "e1"), ("unknown", "")]
    assert left == HookResult(
        action="inject_context",
        context_injection="now\n\nthen",
        context_injection_role="assistant",
        ephemeral=True,
        append_to_last_tool_result=True,
        context_injections=[
            item("now", role="assistant", ephemeral=True, hook_name="two", event="e2"),
            item("then", ephemeral=True, append_to_last_tool_result=True),
        ],
    )
    expected = sum(len(text) // 4 for text in ("stored", "now", "also stored", "then"))
    assert setup.kernel._current_turn_injections == expected


async def test_one_item_over_the_limit_stops_them_all() -> None:
    """All items are checked before the first is stored or counted."""
    setup = Setup(injection_size_limit=5)
    with pytest.raises(ValueError, match=r"^Context injection exceeds 5 characters$"):
        await setup.process(
            action="inject_context",
            context_injections=[item("fits"), item("too long", ephemeral=True)],
            user_message="hello",
        )

    assert setup.stored == []
    assert setup.display.shown == []
    assert setup.kernel._current_turn_injections == 0


async def test_the_budget_counts_item_by_item(caplog: pytest.LogCaptureFixture) -> None:
    """Each item of a list is weighed against what the ones before it used."""
    setup = Setup(injection_budget_per_turn=2)
    with caplog.at_level(logging.WARNING):
        await setup.process(
            action="inject_context",
            context_injections=[item("x" * 8, hook_name="first"), item("y" * 4, hook_name="second")],
        )

    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["Hook injection budget exceeded (hook=second, current=2, attempted=1, budget=2)"]


async def test_the_result_is_not_changed() -> None:
    """Processing works on copies: the handler's own result and items stay as they were."""
    setup = Setup()
    result = HookResult(action="inject_context", context_injections=[item("a\x00b", ephemeral=True), item("c")])
    before = result.model_copy(deep=True)
    left = await setup.kernel.process_hook_result(result, "e", "h")

    assert result == before
    assert left.context_injections[0] is not result.context_injections[0]


@pytest.mark.parametrize(
    ("source", "shown"), [(None, "hook:linter"), ("", "hook:linter"), ("style-guide", "hook:style-guide")]
)
async def test_messages_are_shown_by_position(source: str | None, shown: str) -> None:
    """The display gets text, level and who speaks, whatever the action but ask_user."""
    setup = Setup()
    for action in ("continue", "deny", "modify", "inject_context"):
        await setup.process(action=action, user_message="look", user_message_level="error", user_message_source=source)

    assert setup.display.shown == [("look", "error", shown)] * 4


async def test_a_failing_display_is_logged_only(caplog: pytest.LogCaptureFixture) -> None:
    """A display that raises changes nothing about the result."""
    setup = Setup()
    setup.kernel.display_system = SimpleNamespace(show_message=lambda *_: 1 / 0)
    result = HookResult(user_message="look")
    with caplog.at_level(logging.ERROR):
        assert await setup.kernel.process_hook_result(result, "e", "h") is result

    assert "ZeroDivisionError" in caplog.text


async def test_without_a_display_a_message_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody to show it to: the message goes to the debug log, and so does a wish to suppress output."""
    setup = Setup()
    setup.kernel.display_system = None
    with caplog.at_level(logging.DEBUG):
        await setup.process(user_message="look here", suppress_output=True)

    assert "look here" in caplog.text
    assert "suppress" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


@pytest.mark.parametrize("result", [{"action": "continue"}, None, "continue", object()])
async def test_what_is_no_hook_result_is_refused(result: Any) -> None:
    """A plain dict, or anything else without a verdict's attributes, is an AttributeError."""
    with pytest.raises(AttributeError):
        await ModuleCoordinator().process_hook_result(result, "e")
