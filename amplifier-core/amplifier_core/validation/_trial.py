"""Mount a module on a separate coordinator, record what it uses, and clean up after it.

Two mistakes are legal but hard to find, so a trial mount warns of them: registering a list of events as a capability,
which no collector reads, and looking up other modules while they are still being mounted.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from amplifier_core.bounded_call import call, maybe_await, running_task
from amplifier_core.data import INTERRUPTS, copy_tree, reason
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.base import (
    ModuleValidator,
    ValidationCheck,
    ValidationResult,
    compliance_error,
    failing,
)

logger = logging.getLogger(__name__)

#: Seconds a mount() may take on trial. Generous: only a hang takes this long.
TRIAL_MOUNT_TIMEOUT = 30.0

#: Seconds each of its cleanups may take.
TRIAL_CLEANUP_TIMEOUT = 10.0

_EVENTS_CHANNEL = "observability.events"
_EVENT_NAME = re.compile(r"[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)+")

#: Capabilities of these families come from the app, which registers them before any module mounts.
_FROM_THE_APP = ("session.", "amplifier.")


async def trial_mount(
    validator: ModuleValidator, module: Any, config: dict[str, Any] | None, result: ValidationResult
) -> None:
    """Mount `module` with a copy of `config`, add the checks and warnings to `result`, run the module's cleanups.

    Raises only KeyboardInterrupt, SystemExit and the cancellation of the caller's task. A module that blocks without
    awaiting cannot be interrupted.
    """
    coordinator = RecordingCoordinator()
    before = validator.observe(coordinator)
    outcome = await _attempt(lambda: _mount(module, coordinator, config), TRIAL_MOUNT_TIMEOUT)
    coordinator.notes.open = False
    if outcome.timed_out:
        result.add(_timeout_check())
    elif outcome.error is not None:
        result.add(compliance_error(outcome.error))
    else:
        validator.check_mounted(result, coordinator, before, outcome.value)
    for warning in _warnings(coordinator.notes, _module_id(result.module_path)):
        result.add(warning)
    if not validator.is_instance(outcome.value):
        coordinator.register_cleanup(outcome.value)
    for cleanup in reversed(coordinator._cleanup_fns):
        cleaned = await _attempt(cleanup, TRIAL_CLEANUP_TIMEOUT)
        if cleaned.error is not None:
            logger.debug("Cleanup after the trial mount of %s failed: %s", result.module_path, reason(cleaned.error))


async def _mount(module: Any, coordinator: MockCoordinator, config: dict[str, Any] | None) -> Any:
    """Await mount() whatever it returned: the error of a plain function is for its author to read."""
    return await module.mount(coordinator, copy_tree(config or {}))


class _Outcome(NamedTuple):
    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False


async def _attempt(action: Callable[[], Any], deadline: float) -> _Outcome:
    """Call `action`, await its result if it is awaitable, and return the outcome."""
    try:
        outcome: _Outcome = await call(running_task(), deadline, _guarded, action)
    except (asyncio.CancelledError, *INTERRUPTS):
        raise
    except TimeoutError as error:
        return _Outcome(error=error, timed_out=True)
    except BaseException as error:
        return _Outcome(error=error)
    return outcome


async def _guarded(action: Callable[[], Any]) -> _Outcome:
    """Catch the errors of the action itself, so that a TimeoutError from outside can only be the deadline."""
    try:
        return _Outcome(await maybe_await(action()))
    except (Exception, GeneratorExit) as error:
        return _Outcome(error=error)


def _timeout_check() -> ValidationCheck:
    return failing(
        "protocol_compliance",
        "Error during protocol compliance check: "
        f"timeout: mount() was not done after {TRIAL_MOUNT_TIMEOUT:g} seconds. "
        "Return promptly and leave slow work to on_session_ready() or to the first use",
    )


def _module_id(module_path: str) -> str:
    path = PurePath(module_path)
    name = (path.parent if path.name == "__init__.py" else path).name.removesuffix(".py").rpartition(".")[2]
    return name.removeprefix("amplifier_module_").replace("_", "-") or "my-module"


@dataclass
class Notes:
    """The capabilities and channels used while the notes were open."""

    open: bool = True
    registered: dict[str, Any] = field(default_factory=dict)
    contributed: set[str] = field(default_factory=set)
    #: In order, without repetition.
    read: dict[str, None] = field(default_factory=dict)
    collected: dict[str, None] = field(default_factory=dict)

    def wants(self, name: object) -> bool:
        """Return whether to note `name`: modules may pass anything, but only text is worth a warning."""
        return self.open and isinstance(name, str)


class RecordingCoordinator(MockCoordinator):
    """Record the capabilities and channels that a module uses."""

    notes: Notes

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Set everything up."""
        self: RecordingCoordinator = super().__new__(cls, *args, **kwargs)
        self.notes = Notes()
        return self

    def register_capability(self, name: str, value: Any) -> None:
        if self.notes.wants(name):
            self.notes.registered[name] = value
        super().register_capability(name, value)

    def get_capability(self, name: str) -> Any:
        if self.notes.wants(name):
            self.notes.read[name] = None
        return super().get_capability(name)

    def register_contributor(self, channel: str, name: str, callback: Callable[[], Any]) -> None:
        if self.notes.wants(channel):
            self.notes.contributed.add(channel)
        super().register_contributor(channel, name, callback)

    async def collect_contributions(self, channel: str) -> list[Any]:
        if self.notes.wants(channel):
            self.notes.collected[channel] = None
        return await super().collect_contributions(channel)


def _warnings(notes: Notes, module_id: str) -> list[ValidationCheck]:
    found = []
    if _EVENTS_CHANNEL not in notes.contributed:  # offering the events both ways is fine
        for name, value in notes.registered.items():
            if name == _EVENTS_CHANNEL or _lists_events(value):
                found.append(_wrong_api(name, module_id))
    looked = [
        f'get_capability("{name}")'
        for name in notes.read
        if name not in notes.registered and not name.startswith(_FROM_THE_APP)
    ]
    looked += [f'collect_contributions("{channel}")' for channel in notes.collected]
    if looked:
        found.append(_too_early(looked))
    return found


def _lists_events(value: Any) -> bool:
    return (
        type(value) in (list, tuple, set, frozenset)
        and len(value) > 0
        and all(isinstance(item, str) and _EVENT_NAME.fullmatch(item) for item in value)
    )


def _wrong_api(name: str, module_id: str) -> ValidationCheck:
    return failing(
        "contribution_channel",
        f'mount() called register_capability("{name}", ...) to announce events, but collect_contributions() will never '
        f'see it. Use coordinator.register_contributor("{_EVENTS_CHANNEL}", "{module_id}", lambda: [...])',
        "warning",
    )


def _too_early(looked: list[str]) -> ValidationCheck:
    return failing(
        "mount_order",
        f"mount() looked up other modules before all are mounted: {', '.join(looked)}. "
        "Move it to `async def on_session_ready(coordinator)`",
        "warning",
    )
