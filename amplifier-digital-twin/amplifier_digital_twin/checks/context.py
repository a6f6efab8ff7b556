"""What checks look at: the twin, whose eyes they use, and what the services saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from amplifier_digital_twin.backends.twin import Sockets, Twin
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.profile.model import User

#: The environment of a command inside, complete, for the user it runs as.
Environment: TypeAlias = Callable[[User], Mapping[str, str]]


class Finding(Protocol):
    """Where one installed package came from, and whether that is what was served."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def location(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def expected(self) -> str: ...
    @property
    def found(self) -> str: ...
    @property
    def is_ok(self) -> bool: ...
    @property
    def reason(self) -> str: ...


#: Compares installed packages (all, or those of some names) with what was served.
ProvenanceCheck: TypeAlias = Callable[[Literal["all"] | tuple[str, ...]], Awaitable[Sequence[Finding]]]


def _nobody() -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True)
class CheckContext:
    """Everything a check needs besides itself."""

    twin: Twin
    user: User
    environment: Environment
    evidence: Evidence
    sockets: Sockets
    #: The hosts that services refused so far.
    refused_hosts: Callable[[], frozenset[str]] = field(default=_nobody)
    provenance: ProvenanceCheck | None = None

    def user_named(self, name: str | None) -> User:
        """Return the user that a check names: the profile's, or root."""
        return User("root", 0) if name == "root" else self.user
