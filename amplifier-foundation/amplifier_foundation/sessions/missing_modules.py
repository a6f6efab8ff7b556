"""Say which modules of a plan could not be loaded: all of them, so that one attempt is enough to mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_core import AmplifierSession

#: The lists of a plan, with what an entry of each is.
_LISTS: Final = {"providers": "provider", "tools": "tool", "hooks": "hook"}


class ModulesMissingError(FoundationError):
    """Modules of the plan could not be loaded; `failures` has one line for each.

    `is_fatal` says that the session cannot do without one of them, whatever is allowed.
    """

    code = "modules_missing"

    def __init__(self, failures: list[str], *, is_fatal: bool = False) -> None:
        super().__init__("; ".join(failures))
        self.failures = failures
        self.is_fatal = is_fatal


async def further_failures(session: AmplifierSession, *, is_loop_there: bool) -> list[str]:
    """Return which other modules cannot be loaded, for a session that the kernel gave up at its loop or its context.

    The kernel looks at nothing behind the one that fails. What is loaded here is mounted nowhere: a module that fails
    only when it is mounted is not found.
    """
    failures: list[str] = []
    for kind, entry in _entries(session.config, with_context=not is_loop_there):
        module_id = str(entry["module"])
        try:
            await session.loader.load(
                module_id, dict(entry.get("config") or {}), entry.get("source"), session.coordinator
            )
        except (Exception, SystemExit) as error:  # a module may fail in any way when it is imported
            failures.append(f"{kind} '{module_id}': {str(error) or type(error).__name__}")
    return failures


def _entries(plan: Mapping[str, Any], *, with_context: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what a plan names behind its loop, or behind its context, with the kind of each."""
    section = plan.get("session") or {}
    context = section.get("context")
    entry = context if isinstance(context, Mapping) else {"module": context, "source": section.get("context_source")}
    if with_context and entry.get("module"):
        yield "context", entry
    for name, kind in _LISTS.items():
        for one in plan.get(name) or ():
            if one.get("module"):
                yield kind, one
