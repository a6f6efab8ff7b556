"""Libraries for applications on the kernel: bundles, sources, settings, sessions and their children."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.subprocess_runner import run_session_in_subprocess

__version__ = "3.0.0"

__all__ = ["run_session_in_subprocess"]


def __getattr__(name: str) -> Any:
    if name != "run_session_in_subprocess":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from amplifier_foundation.subprocess_runner import run_session_in_subprocess

    return run_session_in_subprocess
