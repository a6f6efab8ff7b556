"""What the service process of a universe is told, as JSON on disk; nothing in it is secret."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.files import replace_file

#: The whole index of the host, as an entry of `allow`.
PACKAGE_INDEX: Final = "@package-index"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProcessIdentity(_Model):
    """A process that cannot be mistaken for a later one of the same number."""

    pid: int
    #: Field 22 of `/proc/PID/stat`.
    start_time: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of a running process; raises ProcessLookupError."""
        found = _start_time(pid)
        if found is None:
            raise ProcessLookupError(pid)
        return cls(pid=pid, start_time=found)

    def is_running(self) -> bool:
        """Return whether the process still runs; a zombie does not."""
        return _start_time(self.pid) == self.start_time


class RepositoryConfig(_Model):
    """A repository of the host that answers for a public address."""

    url: str
    path: Path
    #: `worktree` (as it is on disk, uncommitted changes included), else a branch, tag or commit.
    ref: str = "worktree"


class RewriteConfig(_Model):
    """A host, or a path prefix of one, whose requests go elsewhere.

    `match` is `host[:port][/path]`, with or without a scheme; it covers that path and everything below it, never a
    sibling whose name only starts the same.
    """

    match: str
    #: `http(s)://host[:port][/path]`, or `mock:NAME`.
    target: str


class MockConfig(_Model):
    """A server inside the container that answers for public names."""

    name: str
    domains: tuple[str, ...] = ()
    #: A command of the host whose stdin and stdout are one connection to the server inside, such as
    #: `podman exec -i CONTAINER socat - TCP:127.0.0.1:PORT`.
    connect: tuple[str, ...]


class ServicesConfig(_Model):
    """Everything the service process needs; written by the universe, read at the start and again on SIGHUP."""

    #: Gets `index.sock`, `git.sock`, `proxy.sock` and, when `needs_proxy`, `ca-bundle.pem`; mounted read-only inside.
    sockets: Path
    #: Private files of this universe's services: bare repositories, `served.json`, the proxy's key.
    state: Path
    #: Every request, one JSON object a line (see `request_log.py`).
    log: Path
    #: Downloaded packages, shared by all universes of this user.
    cache: Path
    cache_bytes: int = 8 * 1024**3
    #: Wheels built here. Looked at for every request, so it may be filled later.
    wheels: Path | None = None
    #: Names answered from `wheels` and nowhere else, also before their wheel is there. A name with a wheel is implied.
    names: tuple[str, ...] = ()
    repositories: tuple[RepositoryConfig, ...] = ()
    #: Hosts that may be reached (`host` or `host:port`, exactly), and `@package-index`.
    allow: tuple[str, ...] = ()
    rewrites: tuple[RewriteConfig, ...] = ()
    mocks: tuple[MockConfig, ...] = ()
    #: End when this process has ended: the launcher at first, the container's first process later (SIGHUP).
    until: ProcessIdentity | None = None
    #: End at this time (seconds since the epoch) in any case.
    deadline: float | None = None
    #: Copied to `served.json` when this config is in effect: raise it before SIGHUP, and wait for it there.
    revision: int = 0

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that may be reached."""
        return tuple(item for item in self.allow if item != PACKAGE_INDEX)

    @property
    def needs_proxy(self) -> bool:
        """Return whether anything but packages and repositories can be reached."""
        return bool(self.hosts or self.rewrites or self.mocks)

    def save(self, path: Path) -> None:
        """Write the config, readable by the user alone; a reader sees the old one or the new one."""
        replace_file(path, self.model_dump_json(indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> ServicesConfig:
        """Read a config; raises TwinError (`services_config_invalid`)."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            said = f"{path}: {error}"
            raise TwinError("services_config_invalid", said, "launch the universe again") from error


class ServedRepository(_Model):
    """What is served for one repository."""

    url: str
    #: The bare repository.
    folder: Path
    #: `HEAD` and full ref names → commit. `HEAD` is what the profile asked for.
    commits: dict[str, str]


class Served(_Model):
    """What the services serve: `state/served.json`, rewritten when a config is in effect."""

    revision: int = 0
    #: Set when the config of this revision could not be used; what was served before is still served.
    error: dict[str, str] | None = None
    repositories: tuple[ServedRepository, ...] = ()
    wheels: Path | None = None
    names: tuple[str, ...] = ()
    #: What was left out of working trees (submodules, nested repositories), for the user.
    notes: tuple[str, ...] = ()

    @classmethod
    def load(cls, config: ServicesConfig) -> Served:
        """Read what is served; raises TwinError (`services_not_ready`)."""
        try:
            return cls.model_validate_json((config.state / "served.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise TwinError("services_not_ready", f"{config.state}: {error}", "see the log of the services") from error


def _start_time(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
