"""Stand-ins for what the world gives the loader: installed distributions, and an app's resolver."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator


class EntryPoint:
    """An entry point of the group `amplifier.modules`."""

    def __init__(self, name: str, target: Any) -> None:
        self.name = name
        self.target = target
        self.loads = 0

    def load(self) -> Any:
        """Give the target, or raise it if it is an exception."""
        self.loads += 1
        if isinstance(self.target, BaseException):
            raise self.target
        return self.target


class Resolver:
    """Say where modules are: one path for all, or an exception."""

    def __init__(self, where: Any) -> None:
        self.where = where
        self.calls: list[Any] = []

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        """Return a source, or raise."""
        self.calls.append((module_id, source_hint, profile_hint))
        if isinstance(self.where, BaseException):
            raise self.where
        return Source(Path(self.where))


class Source:
    """A place that resolves to a path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        """Return the path."""
        return self.path

    def __str__(self) -> str:
        return f"source:{self.path.name}"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, EntryPoint]]:
    """Give `install(id=target, ...)`: only these entry points exist from now on; returns them by name."""

    def install_only(**targets: Any) -> dict[str, EntryPoint]:
        points = {
            name.replace("_", "-"): EntryPoint(name.replace("_", "-"), target) for name, target in targets.items()
        }
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: list(points.values()))
        return points

    return install_only


@pytest.fixture
def resolving() -> Callable[[Any], tuple[ModuleCoordinator, Resolver]]:
    """Give `resolving(where)`: a coordinator with a resolver mounted, and that resolver."""

    def make(where: Any) -> tuple[ModuleCoordinator, Resolver]:
        coordinator, resolver = ModuleCoordinator(), Resolver(where)
        coordinator.mount("module-source-resolver", resolver).close()
        return coordinator, resolver

    return make
