"""A profile: every key of version 1, what its value must be, and what must fit together.

The models are configs of the kit, which names key, value and what was expected; `load.py` adds file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    Strict,
    model_validator,
)

from amplifier_kit.config import Config, Text, expects

NetworkMode = Literal["none", "gateway", "host"]
Keys = tuple[str | int, ...]
T = TypeVar("T")

#: Where relative paths of the host start while a profile is read: the folder of its file.
FOLDER: Final[ContextVar[Path]] = ContextVar("folder of the profile", default=Path("/"))

# -- values --

_UNITS: Final = {"": 1.0, "k": 1024.0, "m": 1024.0**2, "g": 1024.0**3, "t": 1024.0**4}
_SECONDS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"


def _quantity(text: str, units: Mapping[str, float]) -> float:
    """Return the number that a text with a unit means; raises ValueError."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)", text.strip().lower(), re.ASCII)
    if found is None or found[2] not in units:
        raise ValueError(f"{text!r} is not a number with one of the units {', '.join(filter(None, units))}")
    return float(found[1]) * units[found[2]]


def parse_duration(text: str) -> float:
    """Return seconds for `90`, `20m` or `500ms`; raises ValueError."""
    return _quantity(text, _SECONDS)


def parse_size(text: str) -> int:
    """Return bytes for `512`, `2g` or `4GiB`, in units of 1024; raises ValueError."""
    return int(_quantity(re.sub(r"(?i)i?b\s*$", "", text), _UNITS))


def _text_as(parse: Callable[[str], float]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            return parse(value) if isinstance(value, str) else value
        except ValueError:
            return value  # refused by the type, in its words

    return read


def _host_path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("not a path")
    # Links are kept: a wheel's own name says what it is.
    return Path(os.path.abspath(FOLDER.get() / os.path.expanduser(value)))


def _permissions(value: Any) -> int:
    if not isinstance(value, str) or re.fullmatch(r"(0o?)?[0-7]{3,4}", value) is None:
        raise ValueError("not permissions")
    return int(value.removeprefix("0o"), 8)


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{error}: escape what is meant literally with \\") from None
    return value


def web_address(value: str) -> str:
    """Check an http(s) address without credentials; raises ValueError."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or re.search(r"\s", value):
        raise ValueError(f"{value!r} is not an address like https://example.com/path")
    if "@" in parts.netloc:
        raise ValueError("it has credentials: remove them, a profile holds no secrets")
    return value


def repository_address(value: str) -> str:
    """Check the public address of a repository; raises ValueError."""
    parts = urlsplit(web_address(value))
    names = parts.path.strip("/").removesuffix(".git").split("/")
    if any(name in ("", ".", "..") or "\\" in name for name in names) or parts.query or parts.fragment:
        raise ValueError(f"{value!r} names no repository, as https://github.com/owner/name does")
    return value


def rewritten_address(value: str) -> str:
    """Check a host, or a path of one, without a scheme; raises ValueError."""
    host, _, path = value.partition("/")
    if not re.fullmatch(_HOST, host, re.ASCII) or ".." in path.split("/") or re.search(r"[?#*\\\s]", path):
        raise ValueError(f"{value!r} is not a host and at most a path, without a scheme")
    return value


def _probe_address(value: str) -> str:
    if not web_address(value).startswith("http://"):
        raise ValueError("it is not http://: use a command with curl for anything else")
    return value


def _rewrite_target(value: str) -> str:
    return value if value.startswith("mock:") else web_address(value)


def _one_or_many(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


Name = Annotated[
    str, expects("a name of letters, digits, '.', '_' and '-'", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
]
EnvName = Annotated[str, expects("the name of a variable", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
UserName = Annotated[str, expects("a user name in lower case", pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
HostName = Annotated[str, expects("the exact name of a host, like api.example.com", pattern=rf"^{_HOST}$")]
Allowed = Annotated[
    str,
    expects(
        "'@package-index', '@apt' or the exact name of a host, like api.example.com or example.com:8443",
        pattern=rf"^(@package-index|@apt|{_HOST}(:[0-9]{{1,5}})?)$",
    ),
]
PackageName = Annotated[
    str, expects("the name of a Python package", pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
]
DebianPackage = Annotated[
    str, expects("the name of a Debian package", pattern=r"^[a-z0-9][a-z0-9.+-]+(=[A-Za-z0-9.+:~-]+)?$")
]
Sha256 = Annotated[str, expects("a SHA-256 in 64 lower case hexadecimal digits", pattern="^[0-9a-f]{64}$")]
#: No leading dash: a reference is an argument of git.
Ref = Annotated[
    str, expects("'worktree', a branch, a tag or a commit", pattern=r"^[^\s\x00~^:?*\[\\-][^\s\x00~^:?*\[\\]*$")
]
Picture = Annotated[
    str, expects("the name of a .png file, without folders", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,58}\.png$")
]
Subdirectory = Annotated[
    str, expects("a folder of the repository, without '..'", pattern=r"^([^/.][^/]*|\.)(/[^/.][^/]*)*$")
]
InnerPath = Annotated[str, expects("a path inside the universe that starts with / or ~/", pattern=r"^(/|~/|~$)")]
Port = Annotated[int, Field(ge=1, le=65535)]
#: Ids above these mean `nobody` and `none` to the system.
Id = Annotated[int, Field(ge=0, le=65533)]
Size = Annotated[int, BeforeValidator(_text_as(parse_size)), expects("a size above 0, like 512m or 2g", gt=0, le=2**62)]
Duration = Annotated[
    float,
    BeforeValidator(_text_as(parse_duration)),
    expects("a duration above 0, like 90s or 20m", gt=0, le=10 * 365 * 86400.0),
]
Expression = Annotated[Text, AfterValidator(_expression), expects("a regular expression")]
Permissions = Annotated[
    int,
    PlainValidator(_permissions, json_schema_input_type=str),
    PlainSerializer(lambda mode: f"{mode:04o}"),
    expects('permissions in octal and in quotes, like "0644"'),
]
HostPath = Annotated[
    Path, PlainValidator(_host_path, json_schema_input_type=str), PlainSerializer(str), expects("a path")
]
WebAddress = Annotated[str, AfterValidator(web_address), expects("an address like https://example.com/path")]
ProbeAddress = Annotated[str, AfterValidator(_probe_address), expects("an address like http://localhost:80/path")]
RepositoryAddress = Annotated[
    str, AfterValidator(repository_address), expects("the address of a repository, like https://github.com/owner/name")
]
RewrittenAddress = Annotated[
    str, AfterValidator(rewritten_address), expects("a host and at most a path, like api.example.com/v1")
]
RewriteTarget = Annotated[str, AfterValidator(_rewrite_target), expects("an address, or mock: and the name of a mock")]
#: A list, which YAML has in place of a tuple.
Listed = Annotated[tuple[T, ...], Strict(False)]
OneOrMany = Annotated[
    tuple[T, ...], Strict(False), BeforeValidator(_one_or_many), expects("a valid entry or a list of them")
]

# -- keys --


class Model(Config):
    """Base of all parts of a profile: strict, closed, immutable."""

    #: The key that a plain value in place of the mapping stands for.
    short: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _read_short(cls, data: Any) -> Any:
        return {cls.short: data} if cls.short and isinstance(data, str | int) else data


class Variable(Model):
    """What a profile says about one of its variables."""

    type: Literal["string", "integer", "boolean", "path"] = "string"
    default: str | int | bool | None = None
    required: bool = False
    description: str = ""


class Tar(Model):
    """A root file system in an archive, and what the archive must hash to."""

    path: HostPath
    sha256: Sha256


class Base(Model):
    """What the universe stands on."""

    short: ClassVar[str] = "image"

    #: `host` (a Debian of the host's release), `debian:12`, or an image of a container engine.
    image: Text = "host"
    tar: Tar | None = None
    #: Debian packages that must be there.
    packages: Listed[DebianPackage] = ()
    #: Programs of the host that are put on the path: `uv`; others come as Debian packages.
    tools: Listed[Name] = ()


class User(Model):
    """Who commands run as; root only when the profile says so."""

    name: UserName = "user"
    uid: Id = 1000

    @property
    def home(self) -> str:
        """The home directory inside the universe."""
        return "/root" if self.uid == 0 else f"/home/{self.name}"


ROOT: Final = User(name="root", uid=0)


class Limits(Model):
    """What the universe may use; None means no limit."""

    memory: Size | None = 2 * 1024**3
    pids: Port | None = 512
    cpus: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    disk: Size | None = 4 * 1024**3
    #: How long launching, and then checking, may take.
    wall: Duration = 20 * 60.0


class Secret(Model):
    """A variable of the host's environment that commands see, by name only."""

    short: ClassVar[str] = "env"

    env: EnvName
    optional: bool = False


class Network(Model):
    """What can be reached: nothing, what the services let through, or everything the host reaches."""

    short: ClassVar[str] = "mode"

    mode: NetworkMode = "none"
    #: Exact host names, `host:port`, `@package-index`, `@apt`.
    allow: Listed[Allowed] = ()


class Repository(Model):
    """A working tree of the host that answers for a public address."""

    path: HostPath
    url: RepositoryAddress
    #: `worktree` (as it is, uncommitted changes included), else a branch, tag or commit.
    ref: Ref = "worktree"

    @property
    def name(self) -> str:
        """The last part of the address, without `.git`."""
        return self.url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")


class Rewrite(Model):
    """A host, or a path of one, whose requests go elsewhere: an http(s) address or `mock:<name>`."""

    match: RewrittenAddress
    target: RewriteTarget


class WheelFromGit(Model):
    """How to build a wheel from one of the profile's repositories (`repo` is its name or address)."""

    repo: Text
    ref: Ref | None = None
    build: Text = "uv build --wheel --out-dir dist"
    glob: Text = "dist/*.whl"
    subdirectory: Subdirectory = "."


class Package(Model):
    """A name of the package index that the universe answers itself."""

    name: PackageName
    wheel_path: HostPath | None = None
    wheel_from_git: WheelFromGit | None = None


class UvPolicy(Model):
    """What uv may do in the universe."""

    #: Whether uv may ask the hosting service for commits, past the git service.
    github_fast_path: bool = False
    #: `uv sync --frozen` takes addresses from the lock file, which lead nowhere inside.
    lock: Literal["refuse"] = "refuse"


class Mock(Model):
    """A service that runs inside the universe and answers for public names."""

    name: Name
    run: Text
    port: Port
    domains: Listed[HostName] = ()


class PushedFile(Model):
    """A file or folder of the host that is copied into the universe."""

    src: HostPath
    dest: InnerPath
    recursive: bool = False
    create_dirs: bool = True
    mode: Permissions | None = None
    uid: Id | None = None
    gid: Id | None = None


class Command(Model):
    """A shell command inside the universe; `user` is the profile's, or `root` where asked for."""

    short: ClassVar[str] = "run"

    run: Text
    timeout: Duration = 300.0
    user: UserName | None = None


class Provision(Model):
    """What is done once, before the universe is ready; the result is kept as a snapshot for later launches."""

    files: Listed[PushedFile] = ()
    commands: Listed[Command] = ()


class Update(Model):
    """What `update` does: commands, and whether wheels are built again before them."""

    commands: Listed[Command] = ()
    refresh_packages: bool = False


class HttpProbe(Model):
    """A request that must be answered with success, and with this JSON where given (a part of the answer)."""

    short: ClassVar[str] = "url"

    url: ProbeAddress
    expect_json: JsonValue = None
    expect_status: Annotated[int, Field(ge=100, le=599)] | None = None
    expect_text: Text | None = None


def _tcp_port(value: Any) -> Any:
    """Accept the published form `{port: 80}`."""
    return value["port"] if isinstance(value, dict) and set(value) == {"port"} else value


class Readiness(Model):
    """One sign that the universe is ready: exactly one of `http`, `tcp`, `command`."""

    name: Name
    http: HttpProbe | None = None
    tcp: Annotated[Port, BeforeValidator(_tcp_port)] | None = None
    command: Text | None = None
    timeout: Duration = 60.0
    interval: Duration = 1.0
    retries: Annotated[int, Field(ge=1)] | None = None


class ForwardedPort(Model):
    """A port of the universe that the host reaches on loopback; host 0 picks a free one."""

    container: Port
    host: Annotated[int, Field(ge=0, le=65535)] = 0
    label: str = ""
    path: Text = "/"


class Access(Model):
    """How the host reaches the universe."""

    hostname: HostName | None = None
    ports: Listed[ForwardedPort] = ()


class FileExpectation(Model):
    """What must be true of a file inside the universe."""

    short: ClassVar[str] = "path"

    path: InnerPath
    exists: bool = True
    contains: Text | None = None
    matches: Expression | None = None
    sha256: Sha256 | None = None
    mode: Permissions | None = None


class JsonlExpectation(Model):
    """What must be in the JSONL files that `glob` finds: values of `key`, in order when asked, and none of `lacks`."""

    glob: InnerPath
    has: Listed[Text] = ()
    in_order: bool = False
    lacks: Listed[Text] = ()
    key: Text = "event"
    #: `all`: every file found must pass; `any`: one of them.
    files: Literal["any", "all"] = "any"


class Expectation(Model):
    """What a check expects of its command and of the universe after it."""

    exit: Annotated[int, Field(ge=0, le=255)] | None = 0
    stdout: Text | None = None
    stderr: Text | None = None
    #: A part of the JSON on stdout.
    stdout_json: JsonValue = None
    files: OneOrMany[FileExpectation] = ()
    jsonl: OneOrMany[JsonlExpectation] = ()
    #: Hosts or names that the services must have refused.
    refused: Listed[HostName] = ()


class Screenshot(Model):
    """A picture of a page served inside the universe, kept as evidence."""

    short: ClassVar[str] = "url"

    url: WebAddress
    file: Picture = "page.png"
    width: Annotated[int, Field(ge=16, le=10_000)] = 1280
    height: Annotated[int, Field(ge=16, le=10_000)] = 800
    #: Text that the page must show.
    expect_text: Text | None = None


class Check(Model):
    """One thing to be proved: a command and what it must do, or a request, a picture, or where installs came from."""

    name: Name
    run: Text | None = None
    user: UserName | None = None
    timeout: Duration = 300.0
    expect: Expectation = Expectation()
    http: HttpProbe | None = None
    screenshot: Screenshot | None = None
    #: `all`, or the names of the packages to look at.
    provenance: Literal["all"] | Listed[PackageName] | None = None


class Profile(Model):
    """A universe to be."""

    dtu: Literal[1] = 1
    name: Name
    description: str = ""
    backend: Annotated[
        Literal["auto", "podman", "docker", "incus"],
        expects("one of auto, podman, docker, incus (the embedded runtime no longer exists)"),
    ] = "auto"
    #: Features of the engine that must be there, as `doctor` names them.
    require: Listed[Name] = ()
    #: `strict`: a limit that cannot be enforced is an error; `best-effort`: it is reported and done without.
    isolation: Literal["strict", "best-effort"] = "strict"
    base: Base = Base()
    user: User = User()
    limits: Limits = Limits()
    vars: dict[EnvName, Variable] = Field(default_factory=dict)
    secrets: Listed[Secret] = ()
    environment: dict[EnvName, str] = Field(default_factory=dict)
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
    artifacts: Listed[InnerPath] = ()
    on_failure: Literal["keep", "destroy"] = "destroy"

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


def same_repository(url: str) -> str:
    """Return the form of a repository's address in which equal addresses are equal: host and path, no `.git`."""
    parts = urlsplit(url)
    return f"{parts.netloc}/{parts.path.strip('/').removesuffix('.git')}".lower()


# -- what must fit together --


def conflicts(profile: Profile) -> Iterator[tuple[Keys, str]]:
    """Yield what does not fit together, or is missing on the host: the keys that lead to it, and the problem."""
    yield from _repeated(profile)
    yield from _choices(profile)
    yield from _missing_files(profile)
    if (profile.user.name == "root" or profile.user.uid == 0) and profile.user != ROOT:
        yield ("user",), "write {name: root, uid: 0} for root"
    if profile.base.tar is not None and "image" in profile.base.model_fields_set:
        yield ("base",), "has an image and a tar: keep one of them"
    if profile.network.allow and profile.network.mode != "gateway":
        yield ("network", "allow"), f"means nothing when the mode is {profile.network.mode!r}: write 'mode: gateway'"
    if profile.network.mode == "host" and (profile.has_services or profile.access.ports):
        problem = "'host' with repositories, packages, rewrites, mocks or ports: nothing can be served on the host's"
        yield ("network", "mode"), f"{problem} network: write 'mode: gateway'"
    for index, rewrite in enumerate(profile.rewrites):
        if rewrite.target.startswith("mock:") and rewrite.target[5:] not in [mock.name for mock in profile.mocks]:
            yield ("rewrites", index, "target"), f"unknown mock {rewrite.target[5:]!r}: add it under 'mocks'"
    for index, package in enumerate(profile.packages):
        built = package.wheel_from_git
        if built is not None and profile.repository(built.repo) is None:
            known = ", ".join(repository.name for repository in profile.repositories) or "none"
            problem = f"unknown repository {built.repo!r}: the profile's repositories are: {known}"
            yield ("packages", index, "wheel_from_git", "repo"), problem
    commands: tuple[tuple[Keys, tuple[Command | Check, ...]], ...] = (
        (("provision", "commands"), profile.provision.commands),
        (("update", "commands"), profile.update.commands),
        (("checks",), profile.checks),
    )
    for keys, items in commands:
        for index, item in enumerate(items):
            if item.user not in (profile.user.name, "root", None):
                problem = f"there is no user {item.user!r} in the universe: one of {profile.user.name}, root"
                yield (*keys, index, "user"), problem
    for name in profile.environment.keys() & {secret.env for secret in profile.secrets}:
        yield ("environment", name), f"{name!r} is one of the secrets too: keep it under 'secrets' only"


def _repeated(profile: Profile) -> Iterator[tuple[Keys, str]]:
    named: tuple[tuple[Keys, list[str]], ...] = (
        (("checks",), [check.name for check in profile.checks]),
        (("readiness",), [item.name for item in profile.readiness]),
        (("secrets",), [secret.env for secret in profile.secrets]),
        (("mocks",), [mock.name for mock in profile.mocks]),
        (("mocks",), [str(mock.port) for mock in profile.mocks]),
        (("mocks",), [domain.lower() for mock in profile.mocks for domain in mock.domains]),
        (("packages",), [canonicalize_name(package.name) for package in profile.packages]),
        (("repositories",), [same_repository(repository.url) for repository in profile.repositories]),
        (("access", "ports"), [str(port.host) for port in profile.access.ports if port.host]),
    )
    for keys, names in named:
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield keys, f"{name!r} is given twice: give each of them once"


def _choices(profile: Profile) -> Iterator[tuple[Keys, str]]:
    """Yield entries that have none or several of the keys of which they need one."""
    choices: tuple[tuple[str, tuple[Model, ...], tuple[str, ...]], ...] = (
        ("packages", profile.packages, ("wheel_path", "wheel_from_git")),
        ("readiness", profile.readiness, ("http", "tcp", "command")),
        ("checks", profile.checks, ("run", "http", "screenshot", "provenance")),
    )
    for key, items, names in choices:
        for index, item in enumerate(items):
            given = [name for name in names if getattr(item, name) is not None]
            looks = isinstance(item, Check) and (item.expect.files or item.expect.jsonl or item.expect.refused)
            if len(given) > 1 or (not given and not looks):
                said = f"has {' and '.join(given)}" if given else "has nothing to do"
                yield (key, index), f"{said}: exactly one of {', '.join(names)} is needed"
            elif isinstance(item, Check) and item.run is None:
                about_command = item.expect.model_fields_set - {"files", "jsonl", "refused"}
                if about_command or item.user is not None or (given and looks):
                    yield (key, index), "expects something of a command, but there is no 'run'"


def _missing_files(profile: Profile) -> Iterator[tuple[Keys, str]]:
    wanted: list[tuple[Keys, Path | None]] = [
        *((("repositories", index, "path"), item.path) for index, item in enumerate(profile.repositories)),
        *((("packages", index, "wheel_path"), item.wheel_path) for index, item in enumerate(profile.packages)),
        *((("provision", "files", index, "src"), item.src) for index, item in enumerate(profile.provision.files)),
        (("base", "tar", "path"), profile.base.tar.path if profile.base.tar else None),
    ]
    for keys, path in wanted:
        if path is not None and not path.exists():
            yield keys, f"no such file: {str(path)!r}: a relative path starts from the folder of the profile"
        elif path is not None and keys[0] == "repositories" and not path.is_dir():
            yield keys, f"{str(path)!r} is not a folder"
