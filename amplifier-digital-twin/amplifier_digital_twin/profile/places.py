"""Where in a profile a value stands, and what is said when it cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.documents import Document


class Fault(NamedTuple):
    """One thing that is wrong with a profile: its line, the text with file and line, and what to do."""

    line: int
    text: str
    remedy: str


class FaultyError(Exception):
    """Carry everything that was found wrong so far; the loader turns it into one TwinError."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(fault.text for fault in faults))
        self.faults = tuple(faults)

    def as_twin_error(self) -> TwinError:
        """Return one error that names every fault, in the order of the file."""
        faults = sorted(set(self.faults))
        remedies = dict.fromkeys(fault.remedy for fault in faults)
        return TwinError("profile_invalid", "\n".join(fault.text for fault in faults), "\n".join(remedies))


@dataclass
class Reading:
    """A profile while it is read: the file, what paths are relative to, and what notes came up."""

    document: Document
    environ: Mapping[str, str]
    #: What `~` means for paths inside the universe; known once the profile's user has been read.
    home: str = "/home/user"
    notes: list[str] = field(default_factory=list)
    #: Whether the file came with the program: nothing of the user's lies beside it.
    is_shipped: bool = False

    @property
    def given_folder(self) -> Path:
        """Return the folder that a path given on the command line starts from."""
        return Path.cwd()

    @property
    def default_folder(self) -> Path:
        """Return the folder that the default of a path variable starts from."""
        return self.given_folder if self.is_shipped else self.folder

    @property
    def folder(self) -> Path:
        """Return the folder that relative paths of the host start from."""
        return self.document.path.parent

    def host_path(self, text: str, folder: Path | None = None) -> Path:
        """Return a path of the host as an absolute one, `~` being the home directory of whoever asks."""
        if text == "~" or text.startswith("~/"):
            text = self.environ.get("HOME", "~") + text[1:]
        path = (folder or self.folder).absolute() / text
        # Only what leads to the file is resolved: a wheel's own name says what it is, even when it is a link.
        return path.resolve() if path.name == ".." else path.parent.resolve() / path.name


@dataclass(frozen=True)
class Where:
    """A place in a profile."""

    reading: Reading
    keys: tuple[str | int, ...] = ()

    def at(self, *keys: str | int) -> Where:
        """Return a place below this one."""
        return Where(self.reading, self.keys + keys)

    @property
    def name(self) -> str:
        """Return the place as people write it: `checks[0].expect.exit`."""
        parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys]
        return "".join(parts).removeprefix(".")

    def fault(self, text: str, remedy: str) -> FaultyError:
        """Return the exception that says what is wrong here."""
        document = self.reading.document
        subject = f"{self.name}: " if self.keys else ""
        line = document.line(*self.keys)
        return FaultyError([Fault(line, f"{document.path}:{line}: {subject}{text}", remedy)])
