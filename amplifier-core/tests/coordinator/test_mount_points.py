"""Where modules are mounted, found and unmounted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator

NAMED = ("providers", "tools")


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
