"""Errors of the sandbox."""

from __future__ import annotations

from typing import ClassVar


class SandboxError(Exception):
    """A command cannot be run in the sandbox; the text says why and what to do, `code` is stable."""

    code: ClassVar[str] = "sandbox_failed"


class SandboxRequiredError(SandboxError):
    """A sandbox is required and not available: the command is not run."""

    code: ClassVar[str] = "sandbox_required"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the sandbox is required but not available: {reason}. Install or repair bubblewrap (`apt install "
            "bubblewrap`, `dnf install bubblewrap`), or set `sandbox: auto` to run commands without it"
        )


class FolderMissingError(SandboxError):
    """The working directory does not exist."""

    code: ClassVar[str] = "working_dir_missing"

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(f"the working directory {folder} cannot be entered: it does not exist or is not a folder")


class FolderOutsideError(SandboxError):
    """The working directory cannot be mounted without exposing far more than the project."""

    code: ClassVar[str] = "working_dir_outside"

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(
            f"the working directory {folder} is too broad to be visible in the sandbox: choose a folder of the "
            "project, or set `sandbox: off`"
        )


class LedOutError(SandboxError):
    """The settings name a path through a link that commands could redirect."""

    code: ClassVar[str] = "sandbox_led_out"

    def __init__(self, path: str, real: str) -> None:
        self.path = path
        self.real = real
        super().__init__(
            f"the sandbox settings name {path}, which a link resolves to {real}: a command that can change the link "
            "could point it anywhere. Name the folder itself in `writable` or `readable`, or remove the link"
        )
