"""Sessions as applications run them: a kernel session with a folder, a log and a rule."""

from amplifier_foundation.sessions.runtime import ModulesMissingError, SessionRuntime

__all__ = ["ModulesMissingError", "SessionRuntime"]
