"""Say why a command is not run in a sandbox, or not at all."""

from __future__ import annotations

from typing import ClassVar


class SandboxError(Exception):
    """A command cannot be run in the sandbox; the text says why and what to do, `code` is stable."""

    code: ClassVar[str] = "sandbox_failed"


class SandboxRequiredError(SandboxError):
    """A sandbox is required and cannot be had here: nothing is run."""

    code: ClassVar[str] = "sandbox_required"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the sandbox is required and cannot be had: {reason}. Install bubblewrap (`apt install bubblewrap`, `dnf "
            "install bubblewrap`) or see to it that it works, or set `sandbox: auto` to run commands without it"
        )


class FolderMissingError(SandboxError):
    """The folder to run in is not there."""

    code: ClassVar[str] = "working_dir_missing"

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(f"the working directory {folder} cannot be entered: it is not there, or not a folder")


class FolderOutsideError(SandboxError):
    """The folder to run in cannot be shown inside without showing far more than it."""

    code: ClassVar[str] = "working_dir_outside"

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(
            f"the working directory {folder} is too wide to be shown inside the sandbox: choose a folder of the "
            "project, or set `sandbox: off`"
        )


class LedOutError(SandboxError):
    """The settings name a place by way of a link that commands could make lead anywhere."""

    code: ClassVar[str] = "sandbox_led_out"

    def __init__(self, path: str, real: str) -> None:
        self.path = path
        self.real = real
        super().__init__(
            f"the sandbox is to show {path}, which a link leads out to {real}: a command that can write the link could "
            "lead it anywhere. Name the folder itself in `writable` or `readable`, or remove the link"
        )
