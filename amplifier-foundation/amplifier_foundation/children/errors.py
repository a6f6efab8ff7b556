"""Why a child session could not be started, or ended without an answer."""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_foundation.errors import FoundationError, did_you_mean


class SpawnError(FoundationError, ValueError):
    """A child session cannot be started or resumed; the text says why in words that a model can act on."""

    code: ClassVar[str] = "spawn_invalid"


class AgentUnknownError(SpawnError):
    """The session has no agent of that name, or the caller may not call it."""

    code: ClassVar[str] = "agent_unknown"

    def __init__(self, name: object, known: list[str]) -> None:
        hint = did_you_mean(name, known) if known else "this session has no agents; 'self' starts a copy of it"
        super().__init__(f"there is no agent {name!r}: {hint}")


class AgentUnusableError(SpawnError):
    """The definition of an agent is invalid."""

    code: ClassVar[str] = "agent_unusable"


class ChildUnknownError(SpawnError):
    """No child session of that id can be resumed."""

    code: ClassVar[str] = "child_unknown"


class ChildBusyError(SpawnError):
    """The child session is running already, with another task or in another process."""

    code: ClassVar[str] = "child_busy"


class TooDeepError(SpawnError):
    """The tree of sessions would become too deep, as when agents delegate in circles."""

    code: ClassVar[str] = "spawn_too_deep"


class ChildError(FoundationError, RuntimeError):
    """A child session was started but did not answer; `session_id` is its id."""

    code: ClassVar[str] = "child_failed"

    def __init__(self, session_id: str, text: str) -> None:
        super().__init__(text)
        self.session_id = session_id
        #: What it used, in the form of a result's metadata.
        self.metadata: dict[str, Any] = {}


class ChildRefusedError(ChildError):
    """Modules of the child could not be loaded; `failures` has a line for each."""

    code: ClassVar[str] = "child_refused"

    def __init__(self, session_id: str, failures: list[str]) -> None:
        super().__init__(session_id, f"the session {session_id} was not started: {'; '.join(failures)}")
        self.failures = failures


class ChildFailedError(ChildError):
    """The child raised or took too long."""
