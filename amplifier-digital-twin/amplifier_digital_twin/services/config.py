"""What the service process of a universe is told and what it answers, as JSON on disk; nothing in it is secret."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import ForwardedPort, Mock, Repository, Rewrite
from amplifier_foundation.files import replace_file

#: The whole index of the host, as an entry of `allow`.
PACKAGE_INDEX: Final = "@package-index"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServicesConfig(_Model):
    """Everything the service process needs; written by the universe, read once."""

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
    repositories: tuple[Repository, ...] = ()
    #: Hosts that may be reached (`host` or `host:port`, exactly), and `@package-index`.
    allow: tuple[str, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    mocks: tuple[Mock, ...] = ()
    #: Ports of the host's loopback that lead inside.
    ports: tuple[ForwardedPort, ...] = ()
    #: The command of the host that runs what is appended to it in the container: mocks and ports are reached by its
    #: stdin and stdout.
    inside: tuple[str, ...] = ()
    #: The directory of the universe, with whose life the services end.
    universe: Path | None = None

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
            raise TwinError("services_config_invalid", f"{path}: {error}", "launch the universe again") from error


class ServedRepository(_Model):
    """What is served for one repository."""

    url: str
    #: The bare repository.
    folder: Path
    #: `HEAD` and full ref names → commit. `HEAD` is what the profile asked for.
    commits: dict[str, str]


class Served(_Model):
    """What the services serve: `state/served.json`, written before they answer."""

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
