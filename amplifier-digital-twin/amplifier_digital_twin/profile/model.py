"""A profile: every key of version 1, what its value must be, and what the rest of the program reads.

Files are read by `profile.load`, which fills in variables and reports everything that is wrong with file and line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from amplifier_digital_twin.profile import values
from amplifier_digital_twin.profile.values import Listed, OneOrMany

NetworkMode = Literal["none", "gateway", "host"]


class Model(BaseModel):
    """Base of all parts of a profile: strict, closed, immutable."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    #: The key that a plain value in place of the mapping stands for.
    short: ClassVar[str] = ""
    #: Keys for which null is a value of its own.
    nullable: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: Any, info: ValidationInfo) -> Any:
        if cls.short and isinstance(data, str | int) and not isinstance(data, bool):
            return {cls.short: data}
        if isinstance(data, dict) and info.context is not None:
            empty = [key for key, value in data.items() if value is None and key not in cls.nullable]
            if empty and set(empty) <= set(cls.model_fields):
                raise ValueError(f"{empty[0]!r} has no value: give it one, or remove it")
        return data


def exactly_one(model: Model, *names: str) -> None:
    """Raise ValueError unless exactly one of some keys is given."""
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        said = f"has {' and '.join(given)}" if given else "has nothing to do"
        raise ValueError(f"{said}: exactly one of {', '.join(names)} is needed")


class Tar(Model):
    """A root file system in an archive, and what the archive must hash to."""

    path: values.HostFile
    sha256: values.Sha256


class Base(Model):
    """What the universe stands on."""

    short: ClassVar[str] = "image"

    #: `host` (a Debian of the host's release), `debian:12`, or an image of a container engine.
    image: values.Filled = "host"
    tar: Tar | None = None
    #: Debian packages that must be there.
    packages: Listed[values.DebianPackage] = ()
    #: Programs of the host that are put on the path: `uv`; others come as Debian packages.
    tools: Listed[values.Name] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tar is not None and "image" in self.model_fields_set:
            raise ValueError("has an image and a tar: keep one of them")
        return self


class User(Model):
    """Who commands run as; root only when the profile says so."""

    name: values.UserName = "user"
    uid: values.Id = 1000

    @property
    def home(self) -> str:
        """The home directory inside the universe."""
        return "/root" if self.uid == 0 else f"/home/{self.name}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.name == "root") != (self.uid == 0):
            raise ValueError(f"the user {self.name!r} has the id {self.uid}: write {{name: root, uid: 0}} for root")
        return self


class Limits(Model):
    """What the universe may use; None means no limit."""

    nullable: ClassVar[frozenset[str]] = frozenset({"memory", "pids", "cpus", "disk"})

    memory: values.Size | None = 2 * 1024**3
    pids: values.Port | None = 512
    cpus: values.Amount | None = None
    disk: values.Size | None = 4 * 1024**3
    #: How long launching, and then checking, may take.
    wall: values.Duration = 20 * 60.0


class Secret(Model):
    """A variable of the host's environment that commands see, by name only."""

    short: ClassVar[str] = "env"

    env: values.EnvName
    optional: values.Truth = False


class Network(Model):
    """What can be reached: nothing, what the services let through, or everything the host reaches."""

    short: ClassVar[str] = "mode"

    mode: NetworkMode = "none"
    #: Exact host names, `host:port`, `@package-index`, `@apt`.
    allow: Listed[values.Allowed] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.allow and self.mode != "gateway":
            raise ValueError(f"'allow' means nothing when the mode is {self.mode!r}: write 'mode: gateway'")
        return self


class Repository(Model):
    """A working tree of the host that answers for a public address."""

    path: values.HostFolder
    url: values.RepositoryAddress
    #: `worktree` (as it is, uncommitted changes included), else a branch, tag or commit.
    ref: values.Ref = "worktree"

    @property
    def name(self) -> str:
        """The last part of the address, without `.git`."""
        return self.url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")


class Rewrite(Model):
    """A host, or a path of one, whose requests go elsewhere: an http(s) address or `mock:<name>`."""

    match: values.RewrittenAddress
    target: values.RewriteTarget


class WheelFromGit(Model):
    """How to build a wheel from one of the profile's repositories (`repo` is its name or address)."""

    repo: values.Filled
    ref: values.Ref | None = None
    build: values.Filled = "uv build --wheel --out-dir dist"
    glob: values.Filled = "dist/*.whl"
    subdirectory: values.Subdirectory = "."


class Package(Model):
    """A name of the package index that the universe answers itself."""

    name: values.PackageName
    wheel_path: values.HostFile | None = None
    wheel_from_git: WheelFromGit | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "wheel_path", "wheel_from_git")
        return self


class UvPolicy(Model):
    """What uv may do in the universe."""

    #: Whether uv may ask the hosting service for commits, past the git service.
    github_fast_path: values.Truth = False
    #: `uv sync --frozen` takes addresses from the lock file, which lead nowhere inside.
    lock: Literal["refuse"] = "refuse"


class Mock(Model):
    """A service that runs inside the universe and answers for public names."""

    name: values.Name
    run: values.Filled
    port: values.Port
    domains: Listed[values.HostName] = ()


class PushedFile(Model):
    """A file or folder of the host that is copied into the universe."""

    src: values.HostFile
    dest: values.InnerPath
    recursive: values.Truth = False
    create_dirs: values.Truth = True
    mode: values.Permissions | None = None
    uid: values.Id | None = None
    gid: values.Id | None = None


class Command(Model):
    """A shell command inside the universe; `user` is the profile's, or `root` where asked for."""

    short: ClassVar[str] = "run"

    run: values.Filled
    timeout: values.Duration = 300.0
    user: values.UserName | None = None


class Provision(Model):
    """What is done once, before the universe is ready; the result is kept as a snapshot for later launches."""

    files: Listed[PushedFile] = ()
    commands: Listed[Command] = ()


class Update(Model):
    """What `update` does: commands, and whether wheels are built again before them."""

    commands: Listed[Command] = ()
    refresh_packages: values.Truth = False


class HttpProbe(Model):
    """A request that must be answered with success, and with this JSON where given (a part of the answer)."""

    short: ClassVar[str] = "url"
    nullable: ClassVar[frozenset[str]] = frozenset({"expect_json"})

    url: values.ProbeAddress
    expect_json: values.Json = None
    expect_status: int | None = Field(None, ge=100, le=599)
    expect_text: values.Filled | None = None


class Readiness(Model):
    """One sign that the universe is ready: exactly one of `http`, `tcp`, `command`."""

    name: values.Name
    http: HttpProbe | None = None
    tcp: values.Port | None = None
    command: values.Filled | None = None
    timeout: values.Duration = 60.0
    interval: values.Duration = 1.0
    retries: int | None = Field(None, ge=1)

    @field_validator("tcp", mode="before")
    @classmethod
    def _read_tcp(cls, value: Any) -> Any:
        """Accept the published form `{port: 80}`."""
        if not isinstance(value, dict) or "port" not in value:
            return value
        for key in value:
            if key != "port":
                raise ValueError(f"unknown key {str(key)!r} in tcp: the only one is 'port'")
        return value["port"]

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "http", "tcp", "command")
        return self


class Port(Model):
    """A port of the universe that the host reaches on loopback; host 0 picks a free one."""

    container: values.Port
    host: values.FreePort = 0
    label: values.Text = ""
    path: values.Filled = "/"


class Access(Model):
    """How the host reaches the universe."""

    hostname: values.HostName | None = None
    ports: Listed[Port] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        for port, count in Counter(port.host for port in self.ports if port.host).items():
            if count > 1:
                raise ValueError(f"the host's port {port} is given twice: use 0 to get a free one")
        return self


class FileExpectation(Model):
    """What must be true of a file inside the universe."""

    short: ClassVar[str] = "path"

    path: values.InnerPath
    exists: values.Truth = True
    contains: values.Filled | None = None
    matches: values.Expression | None = None
    sha256: values.Sha256 | None = None
    mode: values.Permissions | None = None


class JsonlExpectation(Model):
    """What must be in the JSONL files that `glob` finds: values of `key`, in order when asked, and none of `lacks`."""

    glob: values.InnerPath
    has: Listed[values.Filled] = ()
    in_order: values.Truth = False
    lacks: Listed[values.Filled] = ()
    key: values.Filled = "event"
    #: `all`: every file found must pass; `any`: one of them.
    files: Literal["any", "all"] = "any"


class Expectation(Model):
    """What a check expects of its command and of the universe after it."""

    nullable: ClassVar[frozenset[str]] = frozenset({"exit", "stdout_json"})

    exit: int | None = Field(0, ge=0, le=255)
    stdout: values.Filled | None = None
    stderr: values.Filled | None = None
    #: A part of the JSON on stdout.
    stdout_json: values.Json = None
    files: OneOrMany[FileExpectation] = ()
    jsonl: OneOrMany[JsonlExpectation] = ()
    #: Hosts or names that the services must have refused.
    refused: Listed[values.HostName] = ()


class Screenshot(Model):
    """A picture of a page served inside the universe, kept as evidence."""

    short: ClassVar[str] = "url"

    url: values.WebAddress
    file: values.Picture = "page.png"
    width: int = Field(1280, ge=16, le=10_000)
    height: int = Field(800, ge=16, le=10_000)
    #: Text that the page must show.
    expect_text: values.Filled | None = None


class Check(Model):
    """One thing to be proved: a command and what it must do, or a request, a picture, or where installs came from."""

    name: values.Name
    run: values.Filled | None = None
    user: values.UserName | None = None
    timeout: values.Duration = 300.0
    expect: Expectation = Expectation()
    http: HttpProbe | None = None
    screenshot: Screenshot | None = None
    #: `all`, or the names of the packages to look at.
    provenance: Literal["all"] | Listed[values.PackageName] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in ("run", "http", "screenshot", "provenance") if getattr(self, name) is not None]
        looks = self.expect.files or self.expect.jsonl or self.expect.refused
        if len(given) > 1 or (not given and not looks):
            what = f"has {' and '.join(given)}" if given else "checks nothing"
            choices = "run, http, screenshot, provenance, or 'expect' with files, jsonl or refused"
            raise ValueError(f"{what}: a check has exactly one of {choices}")
        about_command = self.expect.model_fields_set - {"files", "jsonl", "refused"}
        if self.run is None and (about_command or self.user is not None):
            raise ValueError("expects something of a command, but there is no 'run'")
        if given and self.run is None and looks:
            raise ValueError(f"'expect' goes with 'run', not with {given[0]!r}: put it in a check of its own")
        return self


class Profile(Model):
    """A universe to be."""

    dtu: Literal[1] = 1
    name: values.Name
    path: Path = Path()
    description: values.Text = ""
    backend: Literal["auto", "podman", "docker", "incus"] = "auto"
    #: Features of the engine that must be there, as `doctor` names them.
    require: Listed[values.Name] = ()
    #: `strict`: a limit that cannot be enforced is an error; `best-effort`: it is reported and done without.
    isolation: Literal["strict", "best-effort"] = "strict"
    base: Base = Base()
    user: User = User()
    limits: Limits = Limits()
    secrets: Listed[Secret] = ()
    environment: values.Variables = Field(default_factory=dict)
    network: Network = Network()
    repositories: Listed[Repository] = ()
    rewrites: Listed[Rewrite] = ()
    packages: Listed[Package] = ()
    uv: UvPolicy = UvPolicy()
    mocks: Listed[Mock] = ()
    provision: Provision = Provision()
    update: Update = Update()
    readiness: Listed[Readiness] = ()
    access: Access = Access()
    checks: Listed[Check] = ()
    artifacts: Listed[values.InnerPath] = ()
    on_failure: Literal["keep", "destroy"] = "destroy"

    @field_validator("backend", mode="before")
    @classmethod
    def _refuse_embedded(cls, value: Any) -> Any:
        if value == "embedded":
            raise ValueError("the embedded runtime no longer exists: write 'auto' (podman, docker or incus)")
        return value

    @property
    def has_services(self) -> bool:
        """Whether anything is served to the universe."""
        return self.network.mode == "gateway" or bool(self.repositories or self.packages or self.rewrites or self.mocks)

    def repository(self, name: str) -> Repository | None:
        """Return the repository of that name or address."""
        for repository in self.repositories:
            if name == repository.name or same_repository(name) == same_repository(repository.url):
                return repository
        return None


def same_package(name: str) -> str:
    """Return the form of a package's name in which equal names are equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def same_repository(url: str) -> str:
    """Return the form of a repository's address in which equal addresses are equal: host and path, no `.git`."""
    parts = urlsplit(url)
    return f"{parts.netloc}/{parts.path.strip('/').removesuffix('.git')}".lower()


def conflicts(profile: Profile) -> Iterable[tuple[tuple[str | int, ...], str]]:
    """Yield what does not fit together: the keys that lead to it, and the problem."""
    named = (
        ("checks", [check.name for check in profile.checks]),
        ("readiness", [item.name for item in profile.readiness]),
        ("secrets", [secret.env for secret in profile.secrets]),
        ("mocks", [mock.name for mock in profile.mocks]),
        ("mocks", [str(mock.port) for mock in profile.mocks]),
        ("packages", [same_package(package.name) for package in profile.packages]),
        ("repositories", [same_repository(repository.url) for repository in profile.repositories]),
    )
    for key, names in named:
        for index, name in enumerate(names):
            if name in names[:index]:
                yield (key, index), f"{name!r} is given twice: give each of them once"
    if profile.network.mode == "host" and (profile.has_services or profile.access.ports):
        problem = "on the host's network nothing can be served to a universe: write 'mode: gateway'"
        yield ("network", "mode"), f"'host' with repositories, packages, rewrites, mocks or ports: {problem}"
    domains = [domain.lower() for mock in profile.mocks for domain in mock.domains]
    for domain in {domain for domain in domains if domains.count(domain) > 1}:
        yield ("mocks",), f"{domain!r} is answered by two mocks: keep one of them"
    mocks = [mock.name for mock in profile.mocks]
    for index, rewrite in enumerate(profile.rewrites):
        if rewrite.target.startswith("mock:") and rewrite.target.removeprefix("mock:") not in mocks:
            yield ("rewrites", index, "target"), f"unknown mock {rewrite.target[5:]!r}: add it under 'mocks'"
    for index, package in enumerate(profile.packages):
        built = package.wheel_from_git
        if built is not None and profile.repository(built.repo) is None:
            known = ", ".join(repository.name for repository in profile.repositories) or "none"
            problem = f"unknown repository {built.repo!r}: the profile's repositories are: {known}"
            yield ("packages", index, "wheel_from_git", "repo"), problem
    users = (profile.user.name, "root", None)
    commands: list[tuple[tuple[str | int, ...], str | None]] = [
        (("provision", "commands", index, "user"), item.user) for index, item in enumerate(profile.provision.commands)
    ]
    commands += [
        (("update", "commands", index, "user"), item.user) for index, item in enumerate(profile.update.commands)
    ]
    commands += [(("checks", index, "user"), check.user) for index, check in enumerate(profile.checks)]
    for keys, user in commands:
        if user not in users:
            yield keys, f"there is no user {user!r} in the universe: one of {profile.user.name}, root"
    for name in profile.environment:
        if name in {secret.env for secret in profile.secrets}:
            yield ("environment", name), f"{name!r} is one of the secrets too: keep it under 'secrets' only"
