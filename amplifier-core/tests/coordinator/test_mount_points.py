"""Where modules are mounted, found and unmounted."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator

SINGLE = ("orchestrator", "context", "module-source-resolver")
NAMED = ("providers", "tools")


def test_the_mount_points_at_first(kernel: ModuleCoordinator) -> None:
    """There are six mount points, and nothing but the registry is mounted."""
    assert kernel.mount_points == {
        "orchestrator": None,
        "providers": {},
        "tools": {},
        "context": None,
        "hooks": kernel.hooks,
        "module-source-resolver": None,
    }


@pytest.mark.parametrize("point", SINGLE)
async def test_a_single_point_holds_one_module(kernel: ModuleCoordinator, point: str) -> None:
    """The latest mount replaces the one before; names are ignored on the way in and out."""
    first, second = object(), object()
    await kernel.mount(point, first)
    await kernel.mount(point, second, name="whatever")

    assert kernel.get(point) is second
    assert kernel.get(point, "anything") is second
    await kernel.unmount(point)
    assert kernel.get(point) is None


@pytest.mark.parametrize("point", NAMED)
async def test_a_named_point_holds_modules_by_name(kernel: ModuleCoordinator, point: str) -> None:
    """The name is the argument, or else the module's own; the same name overwrites."""
    given, own, again = object(), SimpleNamespace(name="own"), object()
    await kernel.mount(point, given, name="given")
    await kernel.mount(point, own)
    assert kernel.get(point) == {"given": given, "own": own}

    await kernel.mount(point, again, name="own")
    assert kernel.get(point, "own") is again
    assert kernel.get(point, "missing") is None


@pytest.mark.parametrize("point", NAMED)
async def test_the_argument_wins_over_the_modules_own_name(kernel: ModuleCoordinator, point: str) -> None:
    """A name given by the caller is the one that counts."""
    await kernel.mount(point, SimpleNamespace(name="own"), name="given")

    assert list(kernel.get(point)) == ["given"]


@pytest.mark.parametrize("point", NAMED)
@pytest.mark.parametrize("module", [object(), SimpleNamespace(name=None), SimpleNamespace(name="")])
def test_a_named_point_needs_a_name(kernel: ModuleCoordinator, point: str, module: Any) -> None:
    """Without any name the mount fails in the words of the published kernel, at once."""
    with pytest.raises(ValueError, match=f"^Name required for {point}$"):
        kernel.mount(point, module).close()
    assert kernel.get(point) == {}


@pytest.mark.parametrize("point", NAMED)
def test_a_name_must_be_text(kernel: ModuleCoordinator, point: str) -> None:
    """A module whose `name` is a method that lost its @property is told so, not mounted under a method."""

    class Forgot:
        def name(self) -> str:
            return "forgot"

    with pytest.raises(TypeError, match=f"Name for {point} must be a string, got method from .*Forgot"):
        kernel.mount(point, Forgot()).close()
    assert kernel.get(point) == {}


@pytest.mark.parametrize("point", NAMED)
async def test_get_returns_the_live_dict(kernel: ModuleCoordinator, point: str) -> None:
    """Whoever holds the dict of a named point sees what is mounted later."""
    live = kernel.get(point)
    module = object()
    await kernel.mount(point, module, name="later")

    assert live is kernel.mount_points[point]
    assert live == {"later": module}


def test_mounting_takes_effect_when_called(kernel: ModuleCoordinator) -> None:
    """The module is there before anything is awaited, and the result is a coroutine."""
    tool = object()
    mounting = kernel.mount("tools", tool, name="now")
    assert kernel.get("tools", "now") is tool

    unmounting = kernel.unmount("tools", "now")
    assert kernel.get("tools", "now") is None

    for returned in (mounting, unmounting):
        assert inspect.iscoroutine(returned)
        returned.close()


@pytest.mark.parametrize("point", ["session", "toolz", ""])
def test_unknown_mount_points_are_refused(kernel: ModuleCoordinator, point: str) -> None:
    """mount, get and unmount name the point they do not know."""
    for refused in (lambda: kernel.mount(point, object()), lambda: kernel.get(point), lambda: kernel.unmount(point)):
        with pytest.raises(ValueError, match=f"^Unknown mount point: {point}$"):
            refused()


async def test_hooks_are_no_place_to_mount(kernel: ModuleCoordinator) -> None:
    """Handlers are registered, not mounted; unmounting hooks does nothing."""
    with pytest.raises(ValueError, match=r"^Hooks should be registered directly with the HookRegistry$"):
        await kernel.mount("hooks", object(), name="x")

    await kernel.unmount("hooks", "x")
    assert kernel.get("hooks", "x") is kernel.hooks


@pytest.mark.parametrize("point", NAMED)
async def test_unmounting_from_a_named_point(kernel: ModuleCoordinator, point: str) -> None:
    """It needs a name, and a name that is not there is ignored."""
    kept = object()
    await kernel.mount(point, kept, name="kept")
    await kernel.unmount(point, "missing")

    with pytest.raises(ValueError, match=f"^Name required to unmount from {point}$"):
        await kernel.unmount(point)
    assert kernel.get(point) == {"kept": kept}


async def test_what_is_written_by_hand_counts(kernel: ModuleCoordinator) -> None:
    """Modules may write into the mount points directly and find it there."""
    tool = object()
    kernel.mount_points["tools"]["direct"] = tool
    kernel.mount_points["context"] = tool

    assert kernel.get("tools", "direct") is tool
    assert kernel.get("context") is tool
    assert kernel.to_dict()["tools"] == ["direct"]


async def test_extra_mount_points_are_accepted_and_ignored(kernel: ModuleCoordinator) -> None:
    """A key added by hand is no mount point: mounting there does nothing, getting gives None."""
    kernel.mount_points["extra"] = {"a": 1}

    await kernel.mount("extra", object(), name="b")
    await kernel.unmount("extra", "a")

    assert kernel.get("extra") is None
    assert kernel.mount_points["extra"] == {"a": 1}


async def test_replaced_mount_points_are_the_ones_used(kernel: ModuleCoordinator) -> None:
    """After the app has set its own mount points, nothing goes to the old ones."""
    old = kernel.mount_points
    kernel.mount_points = {**old, "tools": {}}
    await kernel.mount("tools", object(), name="new")

    assert list(kernel.get("tools")) == ["new"]
    assert old["tools"] == {}


async def test_none_may_be_mounted_under_a_name(kernel: ModuleCoordinator) -> None:
    """The kernel has no opinion on what a module is, as long as it has a name."""
    await kernel.mount("tools", None, name="nothing")

    assert kernel.get("tools") == {"nothing": None}
