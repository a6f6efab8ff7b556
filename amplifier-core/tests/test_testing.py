"""What the testing helpers promise to module and app authors."""

from __future__ import annotations

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult
from amplifier_core.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockTool,
    create_test_coordinator,
)

HELLO = {"role": "user", "content": "hello"}


class TestMockCoordinator:
    async def test_mounting_is_remembered_and_real(self) -> None:
        """Each mount and unmount is recorded as it was called, and done."""
        coordinator, tool = MockCoordinator(), MockTool("t")
        await coordinator.mount("tools", tool)
        assert coordinator.get("tools", "t") is tool
        await coordinator.unmount("tools", "t")
        assert coordinator.get("tools", "t") is None
        assert coordinator.mount_history == [{"mount_point": "tools", "module": tool, "name": None}]
        assert coordinator.unmount_history == [{"mount_point": "tools", "name": "t"}]

    async def test_messages_of_hooks_can_be_shown(self) -> None:
        """The display is called, not awaited, so showing leaves no coroutine behind."""
        coordinator = MockCoordinator()
        await coordinator.process_hook_result(HookResult(user_message="look"), "tool:pre", "h")
        coordinator.display_system.show_message.assert_called_once_with("look", "info", "hook:h")

    def test_coordinators_share_nothing(self) -> None:
        """One test's coordinator does not see what another's did."""
        first, second = MockCoordinator(), MockCoordinator()
        first.config["changed"] = True
        first.mount_points["tools"]["t"] = MockTool()
        assert "changed" not in second.config
        assert second.mount_points["tools"] == {}

    def test_subclasses_may_take_arguments(self) -> None:
        """A subclass with an __init__ of its own need not know how this one is made."""

        class Special(MockCoordinator):
            def __init__(self, label: str) -> None:
                self.label = label

        special = Special("mine")
        assert (special.label, special.session_id) == ("mine", "test-session")


class TestMockTool:
    def test_defaults(self) -> None:
        """Without arguments it has a name, a description and a schema."""
        tool = MockTool()
        assert (tool.name, tool.description, tool.output) == ("mock_tool", "Mock tool: mock_tool", "Success")
        assert tool.input_schema == {"type": "object", "properties": {}}


class TestMockContextManager:
    async def test_it_keeps_messages(self) -> None:
        """Messages go into the list it was given and come out of both getters."""
        messages = [dict(HELLO)]
        context = MockContextManager(messages)
        assert context.messages is messages
        await context.add_message({"role": "assistant", "content": "hi"})
        assert len(messages) == 2
        assert await context.get_messages() == messages
        assert await context.get_messages_for_request(token_budget=5, provider=None) == messages
        await context.clear()
        assert messages == []
        context.clear.assert_awaited_once_with()

    async def test_it_never_compacts(self) -> None:
        """_should_compact() says no, and compacting changes nothing."""
        context = MockContextManager([dict(HELLO)])
        assert await context._should_compact() is False
        await context._compact_internal()
        assert context.messages == [HELLO]

    def test_it_has_no_set_messages(self) -> None:
        """Code that needs set_messages() is told so by its absence."""
        assert not hasattr(MockContextManager(), "set_messages")


class TestEventRecorder:
    async def test_it_works_as_a_handler(self) -> None:
        """Registered with a real registry, it hears what is emitted."""
        recorder, registry = EventRecorder(), HookRegistry()
        registry.register("x:y", recorder.record)
        await registry.emit("x:y", {"a": 1})
        assert [(event, data["a"]) for event, data in recorder.events] == [("x:y", 1)]


def test_create_test_coordinator() -> None:
    """It comes with two tools and a context, mounted without a trace in the history."""
    coordinator = create_test_coordinator()
    assert isinstance(coordinator, MockCoordinator)
    assert sorted(coordinator.get("tools")) == ["echo", "fail"]
    assert isinstance(coordinator.get("context"), MockContextManager)
    assert coordinator.mount_history == []
