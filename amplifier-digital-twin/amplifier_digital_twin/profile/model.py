"""A profile as the rest of the program knows it: every value typed, every variable filled in, every path absolute."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from amplifier_digital_twin.value import Value

NetworkMode = Literal["none", "gateway", "host"]


class Tar(Value):
    """A root file system in an archive, and what the archive must hash to."""

    path: Path
    sha256: str


class Base(Value):
    """What the universe stands on."""

    #: `host`, `debian:12`, or an image of a container engine; `tar` when `tar` is set.
    image: str = "host"
    tar: Tar | None = None
    #: Debian packages that must be there.
    packages: tuple[str, ...] = ()
    #: Programs of the host that are put on the path: `uv`, `git`.
    tools: tuple[str, ...] = ()


class User(Value):
    """Who commands run as; root only when the profile says so."""

    name: str = "user"
    uid: int = 1000

    @property
    def home(self) -> str:
        """Return the home directory inside the universe."""
        return "/root" if self.uid == 0 else f"/home/{self.name}"


class Limits(Value):
    """What the universe may use: bytes, processes, processors, bytes written to disk, seconds."""

    memory: int | None = 2 * 1024**3
    pids: int | None = 512
    cpus: float | None = None
    disk: int | None = 4 * 1024**3
    wall: float = 20 * 60.0


class Secret(Value):
    """A variable of the host's environment that commands see, by name only."""

    env: str
    optional: bool = False


class Network(Value):
    """What can be reached: nothing, what the gateway lets through, or everything the host reaches."""

    mode: NetworkMode = "none"
    #: Exact host names, `host:port`, `@package-index`, `@apt`.
    allow: tuple[str, ...] = ()


class Repository(Value):
    """A working tree of the host that answers for a public address."""

    path: Path
    url: str
    #: `worktree` (as it is, uncommitted changes included), else a branch, tag or commit.
    ref: str = "worktree"

    @property
    def name(self) -> str:
        """Return the last part of the address, without `.git`."""
        return self.url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")


class Rewrite(Value):
    """A host, or a path of one, whose requests go elsewhere: an http(s) address or `mock:<name>`."""

    match: str
    target: str


class WheelFromGit(Value):
    """How to build a wheel from one of the profile's repositories (`repo` is its name or address)."""

    repo: str
    ref: str | None = None
    build: str = "uv build --wheel --out-dir dist"
    glob: str = "dist/*.whl"
    #: Folder of the repository to build in.
    subdirectory: str = "."


class Package(Value):
    """A name of the package index that the universe answers itself."""

    name: str
    wheel_path: Path | None = None
    wheel_from_git: WheelFromGit | None = None


class UvPolicy(Value):
    """What uv may do in the universe."""

    #: Whether uv may ask the hosting service for commits, past the mirror.
    github_fast_path: bool = False
    #: What happens to `uv sync --frozen` and its like, which ignore the index: `refuse` or `relock`.
    lock: Literal["refuse", "relock"] = "refuse"


class Mock(Value):
    """A service that runs inside the universe and answers for public names."""

    name: str
    run: str
    port: int
    domains: tuple[str, ...] = ()


class PushedFile(Value):
    """A file or folder of the host that is copied into the universe."""

    src: Path
    dest: str
    recursive: bool = False
    create_dirs: bool = True
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


class Command(Value):
    """A shell command inside the universe; `user` is the profile's, or `root` where asked for."""

    run: str
    timeout: float = 300.0
    user: str | None = None


class Provision(Value):
    """What is done once, before the universe is ready; its result is kept as a layer."""

    files: tuple[PushedFile, ...] = ()
    commands: tuple[Command, ...] = ()


class Update(Value):
    """What `update` does: commands, and whether wheels are built again before them."""

    commands: tuple[Command, ...] = ()
    refresh_packages: bool = False


class HttpProbe(Value):
    """A request that must be answered with success, and with this JSON where given (a part of the answer)."""

    url: str
    expect_json: Any = None
    expect_status: int | None = None
    expect_text: str | None = None


class Readiness(Value):
    """One sign that the universe is ready: exactly one of `http`, `tcp`, `command`."""

    name: str
    http: HttpProbe | None = None
    tcp: int | None = None
    command: str | None = None
    timeout: float = 60.0
    interval: float = 1.0
    retries: int | None = None


class Port(Value):
    """A port of the universe that the host reaches on loopback; host 0 picks a free one."""

    container: int
    host: int = 0
    label: str = ""
    path: str = "/"


class Access(Value):
    """How the host reaches the universe."""

    hostname: str | None = None
    ports: tuple[Port, ...] = ()


class FileExpectation(Value):
    """What must be true of a file inside the universe."""

    path: str
    exists: bool = True
    contains: str | None = None
    matches: str | None = None
    sha256: str | None = None
    #: Permissions in octal, as a number.
    mode: int | None = None


class JsonlExpectation(Value):
    """What must be in the JSONL files that `glob` finds: values of `key`, in order when asked, and none of `lacks`."""

    glob: str
    has: tuple[str, ...] = ()
    in_order: bool = False
    lacks: tuple[str, ...] = ()
    key: str = "event"
    #: `all`: every file found must hold; `any`: one of them.
    files: Literal["any", "all"] = "any"


class Expectation(Value):
    """What a check expects of its command and of the universe after it."""

    exit: int | None = 0
    stdout: str | None = None
    stderr: str | None = None
    #: A part of the JSON object on stdout.
    stdout_json: Any = None
    files: tuple[FileExpectation, ...] = ()
    jsonl: tuple[JsonlExpectation, ...] = ()
    #: Requests that the gateway must have refused: exact host names.
    refused: tuple[str, ...] = ()


class Screenshot(Value):
    """A picture of a page served inside the universe, kept as evidence."""

    url: str
    file: str = "page.png"
    width: int = 1280
    height: int = 800
    #: Text that the page must show.
    expect_text: str | None = None


class Check(Value):
    """One thing to be proved: a command and what it must do, or a request, a picture, or where installs came from."""

    name: str
    run: str | None = None
    user: str | None = None
    timeout: float = 300.0
    expect: Expectation = field(default_factory=Expectation)
    http: HttpProbe | None = None
    screenshot: Screenshot | None = None
    #: `all`, or the names of the packages to look at.
    provenance: Literal["all"] | tuple[str, ...] | None = None


class Profile(Value):
    """A universe to be."""

    name: str
    path: Path
    description: str = ""
    backend: str = "auto"
    #: Features that must be there (`userns`, `overlay`, `cgroups`): no weaker substitute is taken.
    require: tuple[str, ...] = ()
    #: `strict`: a failed probe is an error; `best-effort`: what is missing is said and done without.
    isolation: Literal["strict", "best-effort"] = "strict"
    base: Base = field(default_factory=Base)
    user: User = field(default_factory=User)
    limits: Limits = field(default_factory=Limits)
    secrets: tuple[Secret, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    network: Network = field(default_factory=Network)
    repositories: tuple[Repository, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    packages: tuple[Package, ...] = ()
    uv: UvPolicy = field(default_factory=UvPolicy)
    mocks: tuple[Mock, ...] = ()
    provision: Provision = field(default_factory=Provision)
    update: Update = field(default_factory=Update)
    readiness: tuple[Readiness, ...] = ()
    access: Access = field(default_factory=Access)
    checks: tuple[Check, ...] = ()
    artifacts: tuple[str, ...] = ()
    on_failure: Literal["keep", "destroy"] = "destroy"
