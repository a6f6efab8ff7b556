"""Say which modules of a plan could not be loaded."""

from __future__ import annotations

from amplifier_foundation.errors import FoundationError


class ModulesMissingError(FoundationError):
    """Modules of the plan could not be loaded; `failures` has one line for each.

    `is_fatal` says that the session cannot do without one of them, whatever is allowed.
    """

    code = "modules_missing"

    def __init__(self, failures: list[str], *, is_fatal: bool = False) -> None:
        super().__init__("; ".join(failures))
        self.failures = failures
        self.is_fatal = is_fatal
