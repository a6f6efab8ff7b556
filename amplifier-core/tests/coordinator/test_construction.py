"""What a coordinator is made of, and what may be done to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookResult, ModuleCoordinator

READ_ONLY = (
    *("session_id", "parent_id", "session", "config", "hooks", "cancellation", "channels", "turn_id", "span_id"),
    *("injection_budget_per_turn", "injection_size_limit", "_cleanup_fns"),
)


def session(**section: Any) -> SimpleNamespace:
    """Return what a coordinator needs of a session."""
    return SimpleNamespace(session_id="child", parent_id="parent", config={"session": section})


@pytest.mark.parametrize("missing", ["session_id", "parent_id", "config"])
def test_a_session_must_have_its_attributes(missing: str) -> None:
    """A session without an id, a parent or a config is an AttributeError that names what is missing."""
    owner = session()
    delattr(owner, missing)

    with pytest.raises(AttributeError, match=missing):
        ModuleCoordinator(owner)


def test_set_session_replaces_the_session() -> None:
    """The private setter of the published kernel exists and brings ids and config along."""
    coordinator = ModuleCoordinator()
    owner = session()
    coordinator._set_session(owner)

    assert coordinator.session is owner
    assert coordinator.session_id == "child"


@pytest.mark.parametrize("name", READ_ONLY)
def test_read_only_attributes_cannot_be_assigned(name: str) -> None:
    """Assigning what only the kernel sets is an AttributeError and changes nothing."""
    coordinator = ModuleCoordinator()
    before = getattr(coordinator, name)

    with pytest.raises(AttributeError):
        setattr(coordinator, name, "other")
    assert getattr(coordinator, name) == before


@pytest.mark.parametrize("name", ["loader", "approval_system", "display_system"])
def test_what_the_app_supplies_starts_as_none_and_can_be_set(name: str) -> None:
    """Loader, approval and display systems are None until somebody sets them."""
    coordinator = ModuleCoordinator()
    assert getattr(coordinator, name) is None

    supplied = object()
    setattr(coordinator, name, supplied)
    assert getattr(coordinator, name) is supplied


def test_mount_points_and_state_can_be_replaced() -> None:
    """The mount points and the scratch space are the app's to write and to replace."""
    coordinator = ModuleCoordinator()
    points, state = dict(coordinator.mount_points), {"theme": "dark"}
    coordinator.mount_points = points
    coordinator.session_state = state

    assert coordinator.mount_points is points
    assert coordinator.session_state is state


def test_session_state_takes_only_a_dict() -> None:
    """A scratch space that is no dict is refused by a TypeError that says what it got."""
    coordinator = ModuleCoordinator()

    assert coordinator.session_state == {}
    with pytest.raises(TypeError, match="session_state must be a dict, got list"):
        coordinator.session_state = []  # type: ignore[assignment]


def test_every_coordinator_has_parts_of_its_own() -> None:
    """Two coordinators share neither registry, token, mount points, channels nor scratch space."""
    one, other = ModuleCoordinator(), ModuleCoordinator()

    for name in ("hooks", "cancellation", "mount_points", "channels", "session_state", "_cleanup_fns"):
        assert getattr(one, name) is not getattr(other, name), name
    assert one.get("tools") is not other.get("tools")


def test_injection_limits_are_read_live_from_the_config() -> None:
    """The limits are None by default and follow the plan as it changes."""
    owner = session()
    coordinator = ModuleCoordinator(owner)
    assert (coordinator.injection_budget_per_turn, coordinator.injection_size_limit) == (None, None)

    owner.config["session"] |= {"injection_budget_per_turn": 5, "injection_size_limit": 7}
    assert (coordinator.injection_budget_per_turn, coordinator.injection_size_limit) == (5, 7)


@pytest.mark.parametrize("config", [{}, {"session": None}, {"session": []}, None, "text"])
def test_limits_survive_a_config_of_any_shape(config: Any) -> None:
    """A config without a session section, or of another shape, means no limits and no error."""
    coordinator = ModuleCoordinator(SimpleNamespace(session_id="s", parent_id=None, config=config))

    assert coordinator.config is config
    assert coordinator.injection_size_limit is None


def test_config_may_be_a_model() -> None:
    """An object with model_dump() serves as a config and stays the same object."""

    class Plan:
        def model_dump(self) -> dict[str, Any]:
            return {"session": {"injection_size_limit": 7, "hook_timeout": 2.5}}

    plan = Plan()
    coordinator = ModuleCoordinator(SimpleNamespace(session_id="s", parent_id=None, config=plan))

    assert coordinator.config is plan
    assert coordinator.injection_size_limit == 7
    assert coordinator.hooks._timeout == 2.5


@pytest.mark.parametrize("key", ["hook_timeout", "ready_timeout", "approval_timeout"])
@pytest.mark.parametrize("value", ["5", True, 0, -1, float("nan"), [1]])
def test_a_deadline_must_be_a_positive_number(key: str, value: Any) -> None:
    """A deadline that no clock could keep is refused when the plan is taken, with its name and value."""
    with pytest.raises(ValueError, match=rf"session\.{key} must be a positive number of seconds, got "):
        ModuleCoordinator(session(**{key: value}))


def test_a_subclass_may_call_init_with_anything() -> None:
    """The kernel's __init__ takes any arguments and undoes nothing that was set up."""

    class Own(ModuleCoordinator):
        def __init__(self, session: Any) -> None:
            self.register_capability("early", True)
            super().__init__("any", "thing", at="all")

    own = Own(session())

    assert own.session_id == "child"
    assert own.get_capability("early") is True


def test_a_subclass_may_have_arguments_of_its_own() -> None:
    """Keywords that the kernel does not know are the subclass's business."""

    class Own(ModuleCoordinator):
        def __init__(self, *, flavour: str) -> None:
            self.flavour = flavour

    assert Own(flavour="vanilla").flavour == "vanilla"


def test_a_misspelt_argument_is_refused() -> None:
    """A keyword that nobody takes is a mistake, not something to ignore."""
    with pytest.raises(TypeError, match="aproval_system"):
        ModuleCoordinator(aproval_system=object())


async def test_every_argument_may_be_a_keyword() -> None:
    """The names of arguments are those of the published kernel."""
    kernel = ModuleCoordinator(session=session(), approval_system=None, display_system=None)
    await kernel.mount(mount_point="tools", module=print, name="t")
    assert kernel.get(mount_point="tools", name="t") is print
    await kernel.unmount(mount_point="tools", name="t")
    kernel.register_capability(name="c", value=1)
    assert kernel.get_capability(name="c") == 1
    kernel.register_contributor(channel="c", name="m", callback=lambda: 1)
    assert await kernel.collect_contributions(channel="c") == [1]
    kernel.register_cleanup(cleanup_fn=print)
    await kernel.process_hook_result(result=HookResult(), event="e", hook_name="h")
    await kernel.request_cancel(immediate=True)
    kernel.cancellation.register_tool_start(tool_call_id="1", tool_name="t")
    kernel.cancellation.register_tool_complete(tool_call_id="1")


async def test_overridden_methods_are_the_ones_that_run() -> None:
    """A subclass that overrides get() decides where injections go."""
    stored: list[Any] = []

    class Own(ModuleCoordinator):
        def get(self, mount_point: str, name: str | None = None) -> Any:
            return SimpleNamespace(add_message=stored.append)

    await Own().process_hook_result(HookResult(action="inject_context", context_injection="text"), "e", "h")
    assert [message["content"] for message in stored] == ["text"]
