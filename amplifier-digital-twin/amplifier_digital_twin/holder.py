"""Which process holds a universe, told so that another process that got its number later is not taken for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

#: In the environment of all that a keeper starts on the host.
MARK_VARIABLE: Final = "AMPLIFIER_DIGITAL_TWIN_KEEPER"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: Of `/proc/<pid>/stat`, counted after the name, which may hold blanks and parentheses.
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19


class Holder(NamedTuple):
    """A process of one boot of the machine."""

    pid: int
    #: Clock ticks from the boot to its start.
    ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Holder | None:
        """Return the process that has a number now; None when none has, or when it has ended and is only not reaped."""
        fields = _stat(pid)
        if fields is None or fields[_STATE_FIELD] in ("Z", "X", "x"):
            return None
        return cls(pid, int(fields[_START_FIELD]), _boot())

    @classmethod
    def current(cls) -> Holder:
        """Return this process."""
        found = cls.of(os.getpid())
        if found is None:
            raise OSError("/proc does not show this process: the program needs /proc")
        return found

    @classmethod
    def from_record(cls, value: Any) -> Holder:
        """Return what `record` wrote; raises KeyError, TypeError, ValueError for anything else."""
        return cls(int(value["pid"]), int(value["ticks"]), str(value["boot"]))

    def record(self) -> dict[str, int | str]:
        """Return it as JSON."""
        return {"pid": self.pid, "ticks": self.ticks, "boot": self.boot}

    @property
    def is_alive(self) -> bool:
        """Tell whether this very process runs."""
        return Holder.of(self.pid) == self


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()
