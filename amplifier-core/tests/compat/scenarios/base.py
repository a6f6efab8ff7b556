"""What every scenario file uses: the register, the stage a scenario plays on, and the form of what it observes."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import math
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

AREAS = (
    "surface",
    "session_plan",
    "session_phases",
    "session_providers",
    "session_events",
    "session_execute",
    "session_cleanup",
    "session_top_level",
    "hooks_registration",
    "hooks_fold",
    "hooks_injection",
    "hooks_json",
    "hooks_collect",
    "correlation",
    "coordinator_mounts",
    "coordinator_services",
    "hook_results",
    "cancellation",
    "retry",
    "errors",
    "models",
    "messages",
    "tool_results",
    "loader",
    "resolver",
    "validators",
    "mount_plan",
    "helpers",
)

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class Scenario:
    """One scenario: its id is `<area>.<function name>`; `alone` plays it in a separate process with a deadline."""

    id: str
    play: Callable[[Stage], Awaitable[Any]]
    alone: bool


REGISTER: dict[str, Scenario] = {}


def load_scenarios() -> dict[str, Scenario]:
    """Import every area and return all scenarios, area by area."""
    for area in AREAS:
        importlib.import_module(f".{area}", __package__)
    return {item.id: item for area in AREAS for item in REGISTER.values() if item.id.startswith(f"{area}.")}


def scenario(play: Callable[[Stage], Awaitable[Any]]) -> Callable[[Stage], Awaitable[Any]]:
    """Register a scenario that is safe to run beside others in one process."""
    return _register(play, alone=False)


def risky(play: Callable[[Stage], Awaitable[Any]]) -> Callable[[Stage], Awaitable[Any]]:
    """Register a scenario that may hang or crash its process."""
    return _register(play, alone=True)


def _register(play: Callable[[Stage], Awaitable[Any]], *, alone: bool) -> Callable[[Stage], Awaitable[Any]]:
    identity = f"{play.__module__.rpartition('.')[2]}.{play.__name__}"
    REGISTER[identity] = Scenario(identity, play, alone)
    return play


class Journal(logging.Handler):
    """Keeps every log line as `LEVEL message`."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(f"{record.levelname} {record.getMessage()}")


@dataclass
class Stage:
    """What a scenario gets: an empty folder on sys.path, the log lines so far, and a notebook."""

    folder: Path
    journal: Journal = field(default_factory=Journal)
    notes: list[Any] = field(default_factory=list)

    def warnings(self) -> list[str]:
        """Return the log lines of level WARNING and above."""
        return [line for line in self.journal.lines if not line.startswith("INFO ")]


async def outcome(work: Any) -> Any:
    """Return what `work` gives (called when callable, awaited when awaitable), or `Type: message` of what it raises."""
    try:
        value = work() if callable(work) else work
        given = await value if inspect.isawaitable(value) else value
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
        return describe(error)
    # A compiled method that returns nothing may give (); one scenario tells the two apart, the others need not.
    return None if given == () else given


def describe(error: BaseException) -> str:
    """Return `Type: message`; of a pydantic error its places and kinds, for its text has a link in it."""
    if type(error).__name__ == "ValidationError" and hasattr(error, "errors"):
        found = [f"{'.'.join(map(str, item['loc']))} {item['type']} {item['msg']}" for item in error.errors()]
        return "ValidationError: " + "; ".join(found)
    # A private subclass is in no contract: its first public parent is what a caller can name.
    public = next(kind for kind in type(error).__mro__ if not kind.__name__.startswith("_"))
    return f"{public.__name__}: {error}"


def plain(value: Any) -> Any:
    """Turn an observation into JSON values, keeping the difference between a tuple and a list."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else f"<{type(key).__name__}> {key}": plain(item) for key, item in value.items()
        }
    if isinstance(value, tuple):
        return {"tuple": [plain(item) for item in value]}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted(map(repr, value))}
    if isinstance(value, BaseException):
        return describe(value)
    if hasattr(value, "model_dump"):
        return {"model": type(value).__name__, **plain(value.model_dump())}
    if is_dataclass(value) and not isinstance(value, type):
        return {"dataclass": type(value).__name__, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}
    return f"<{type(value).__name__}> {value!r}"


def normalise(value: Any, folder: Path) -> Any:
    """Replace what differs between any two runs: ids, instants, addresses and the folder's path."""
    if isinstance(value, dict):
        return {normalise(key, folder): normalise(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [normalise(item, folder) for item in value]
    if not isinstance(value, str):
        return value
    text = value.replace(str(folder), "<folder>")
    text = UUID.sub("<uuid>", text)
    text = INSTANT.sub("<instant>", text)
    return ADDRESS.sub("<address>", text)


def play(item: Scenario, folder: Path) -> Any:
    """Play one scenario on a clean stage and return its normalised observation."""
    folder.mkdir(parents=True)
    stage = Stage(folder)
    logger, level = logging.getLogger(), logging.getLogger().level
    modules, path = set(sys.modules), list(sys.path)
    logger.addHandler(stage.journal)
    logger.setLevel(logging.INFO)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        observed = plain(asyncio.run(_observe(item, stage)))
    finally:
        logger.removeHandler(stage.journal)
        logger.setLevel(level)
        sys.path[:] = path
        for name in [name for name in sys.modules if name.startswith("amplifier_module_") and name not in modules]:
            del sys.modules[name]
    return normalise(observed, folder)


async def _observe(item: Scenario, stage: Stage) -> Any:
    try:
        return await item.play(stage)
    except BaseException as error:
        # What escapes a scenario is itself an observation; nothing here is the scenario's own business to handle.
        return {"escaped": describe(error)}
