"""What may stand in a profile of version 1, as tables: every key, what its value must be, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from amplifier_digital_twin.profile import model
from amplifier_digital_twin.profile.kinds import (
    Key,
    Kind,
    Table,
    amount,
    duration,
    exactly_one,
    expression,
    filled,
    host_file,
    host_folder,
    inner_path,
    json_value,
    listed,
    mapped,
    matching,
    nothing_or,
    one_of,
    one_or_many,
    permissions,
    size,
    text,
    truth,
    whole,
    wrong,
)
from amplifier_digital_twin.profile.places import Where

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
_ENTRY = rf"@package-index|@apt|{_HOST}(?::[0-9]{{1,5}})?"

NAME: Final = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "a name of letters, digits, '.', '_' and '-'")
ENV_NAME: Final = matching(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "the name of a variable (letters, digits, '_')")
HOST_NAME: Final = matching(_HOST, "the exact name of a host, like api.example.com")
PORT: Final = whole(1, 65535)
FREE_PORT: Final = whole(0, 65535)
#: Ids above these mean `nobody` and `none` to the system.
ID: Final = whole(0, 65533)
_ALLOWED = matching(
    _ENTRY, "'@package-index', '@apt' or the exact name of a host, like api.example.com or example.com:8443"
)
_DEBIAN_PACKAGE = matching(r"[a-z0-9][a-z0-9.+-]+(=[A-Za-z0-9.+:~-]+)?", "the name of a Debian package")
PACKAGE_NAME: Final = matching(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "the name of a Python package")
_USER_NAME = matching(r"[a-z_][a-z0-9_-]{0,31}", "a user name of lower case letters, digits, '_' and '-'")
_SHA256 = matching(r"[0-9a-f]{64}", "a SHA-256 in 64 lower case hexadecimal digits")
#: No leading dash: a reference is an argument of git.
REF: Final = matching(r"[^\s\0~^:?*\[\\-][^\s\0~^:?*\[\\]{0,199}", "'worktree', a branch, a tag or a commit")
_PICTURE = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,58}\.png", "the name of a .png file, without folders")
_INSIDE_REPOSITORY = matching(r"(?!/)(?!.*(^|/)\.\.(/|$))[^\0]+", "a folder of the repository, without '..'")


def web_address(value: Any, where: Where) -> str:
    """Take an http(s) address without credentials."""
    given = filled(value, where)
    try:
        parts = urlsplit(given)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise wrong(where, value, "an address like https://example.com/path") from None
    if not is_fine or any(character.isspace() for character in given):
        raise wrong(where, value, "an address like https://example.com/path")
    if parts.username is not None or parts.password is not None:
        raise where.fault("an address with credentials in it", "remove them: a profile holds no secrets")
    return given


def probe_address(value: Any, where: Where) -> str:
    """Take an http address, which the host can ask from outside."""
    address = web_address(value, where)
    if not address.startswith("http://"):
        raise where.fault(f"{address!r} is not http://", "use http://, or a command with curl for anything else")
    return address


def repository_address(value: Any, where: Where) -> str:
    """Take the public address of a repository."""
    address = web_address(value, where)
    parts = urlsplit(address)
    if not parts.path.strip("/") or parts.query or parts.fragment:
        raise wrong(where, value, "the address of a repository, like https://github.com/owner/name")
    return address


def rewritten(value: Any, where: Where) -> str:
    """Take a host, or a path of one, without a scheme."""
    given = filled(value, where)
    host, _, path = given.partition("/")
    if "://" in given:
        raise where.fault(f"{given!r} has a scheme", f"write it without: {given.partition('://')[2]}")
    HOST_NAME(host, where)
    if any(character in path for character in "?#*\\") or any(c.isspace() for c in path) or ".." in path.split("/"):
        raise wrong(where, value, "a host and at most a path, like api.example.com/v1")
    return given


def rewrite_target(value: Any, where: Where) -> str:
    """Take an http(s) address, or `mock:<name>`."""
    given = filled(value, where)
    if given.startswith("mock:"):
        NAME(given.removeprefix("mock:"), where)
        return given
    return web_address(given, where)


def _whole_user(user: model.User, where: Where) -> None:
    if (user.name == "root") != (user.uid == 0):
        raise where.fault(
            f"the user {user.name!r} has the id {user.uid}: root is 0, and nobody else is",
            "write {name: root, uid: 0} for root, or another name and id",
        )


def _whole_network(network: model.Network, where: Where) -> None:
    if network.allow and network.mode != "gateway":
        raise where.fault(
            f"'allow' means nothing when the mode is {network.mode!r}", "write 'mode: gateway', or remove 'allow'"
        )


def _whole_base(base: model.Base, where: Where) -> None:
    if base.tar is not None and base.image != "tar":
        raise where.fault("has an image and a tar", "keep one of them")


def _base(image: str | None = None, tar: model.Tar | None = None, **others: Any) -> model.Base:
    return model.Base(image=image or ("tar" if tar else "host"), tar=tar, **others)


def _whole_access(access: model.Access, where: Where) -> None:
    taken = [port.host for port in access.ports if port.host]
    for port in taken:
        if taken.count(port) > 1:
            raise where.at("ports").fault(f"the host's port {port} is given twice", "use 0 to get a free one")


def _whole_check(check: model.Check, where: Where) -> None:
    given = [name for name in ("run", "http", "screenshot", "provenance") if getattr(check, name) is not None]
    looks = check.expect.files or check.expect.jsonl or check.expect.refused
    if len(given) > 1 or (not given and not looks):
        what = f"has {' and '.join(given)}" if given else "checks nothing"
        choices = "run, http, screenshot, provenance, or 'expect' with files, jsonl or refused"
        raise where.fault(f"{what}: a check has exactly one of {choices}", "split it, or say what to check")
    about_command = check.expect != model.Expectation(
        files=check.expect.files, jsonl=check.expect.jsonl, refused=check.expect.refused
    )
    if check.run is None and (about_command or check.user is not None):
        raise where.fault("says something about a command, but there is no 'run'", "add 'run', or remove it")
    if given and check.run is None and looks:
        raise where.fault(f"'expect' goes with 'run', not with {given[0]!r}", "put it in a check of its own")


def _provenance(value: Any, where: Where) -> Any:
    return "all" if value == "all" else listed(PACKAGE_NAME)(value, where)


def _optional(**kinds: Kind[Any]) -> dict[str, Key[Any]]:
    return {name: Key(kind) for name, kind in kinds.items()}


def _needed(**kinds: Kind[Any]) -> dict[str, Key[Any]]:
    return {name: Key(kind, is_required=True) for name, kind in kinds.items()}


HTTP: Final = Table(
    model.HttpProbe,
    _needed(url=probe_address) | _optional(expect_json=json_value, expect_status=whole(100, 599), expect_text=filled),
    short="url",
)
COMMAND: Final = Table(model.Command, _needed(run=filled) | _optional(timeout=duration, user=_USER_NAME), short="run")
PUSHED_FILE: Final = Table(
    model.PushedFile,
    _needed(src=host_file, dest=inner_path)
    | _optional(recursive=truth, create_dirs=truth, mode=permissions, uid=ID, gid=ID),
)
_TAR = Table(model.Tar, _needed(path=host_file, sha256=_SHA256))
_BASE: Table[model.Base] = Table(
    _base,
    _optional(image=filled, tar=_TAR, packages=listed(_DEBIAN_PACKAGE), tools=listed(NAME)),
    _whole_base,
    short="image",
)
USER: Final = Table(model.User, _optional(name=_USER_NAME, uid=ID), _whole_user)
_LIMITS = Table(
    model.Limits,
    _optional(
        memory=nothing_or(size),
        pids=nothing_or(whole(1, 4_000_000)),
        cpus=nothing_or(amount),
        disk=nothing_or(size),
        wall=duration,
    ),
)
_NETWORK = Table(
    model.Network,
    _optional(mode=one_of("none", "gateway", "host"), allow=listed(_ALLOWED)),
    _whole_network,
    short="mode",
)
_WHEEL_FROM_GIT = Table(
    model.WheelFromGit,
    _needed(repo=filled) | _optional(ref=REF, build=filled, glob=filled, subdirectory=_INSIDE_REPOSITORY),
)
_FILE_EXPECTATION = Table(
    model.FileExpectation,
    _needed(path=inner_path)
    | _optional(exists=truth, contains=filled, matches=expression, sha256=_SHA256, mode=permissions),
    short="path",
)
_JSONL = Table(
    model.JsonlExpectation,
    _needed(glob=inner_path)
    | _optional(has=listed(filled), in_order=truth, lacks=listed(filled), key=filled, files=one_of("any", "all")),
)
_EXPECTATION = Table(
    model.Expectation,
    _optional(
        exit=nothing_or(whole(0, 255)),
        stdout=filled,
        stderr=filled,
        stdout_json=json_value,
        files=one_or_many(_FILE_EXPECTATION),
        jsonl=one_or_many(_JSONL),
        refused=listed(HOST_NAME),
    ),
)
_SCREENSHOT = Table(
    model.Screenshot,
    _needed(url=web_address)
    | _optional(file=_PICTURE, width=whole(16, 10_000), height=whole(16, 10_000), expect_text=filled),
    short="url",
)
_CHECK = Table(
    model.Check,
    _needed(name=NAME)
    | _optional(
        run=filled,
        user=_USER_NAME,
        timeout=duration,
        expect=_EXPECTATION,
        http=HTTP,
        screenshot=_SCREENSHOT,
        provenance=_provenance,
    ),
    _whole_check,
)


def _tcp(value: Any, where: Where) -> int:
    """Take a port, or a mapping that has it as `port`."""
    return Table(int_port, _needed(port=PORT), short="port")(value, where)


def int_port(port: int) -> int:
    """Return the port that a mapping named."""
    return port


READINESS: Final = Table(
    model.Readiness,
    _needed(name=NAME)
    | _optional(http=HTTP, tcp=_tcp, command=filled, timeout=duration, interval=duration, retries=whole(1, 100_000)),
    exactly_one("http", "tcp", "command"),
)


def _as_it_is(value: Any, where: Where) -> Any:
    """Take what the loader reads by itself, before everything else."""
    return value


_MAKE_PROFILE: Callable[..., dict[str, Any]] = dict
PROFILE: Final = Table(
    _MAKE_PROFILE,
    _needed(dtu=_as_it_is, name=NAME)
    | _optional(
        vars=_as_it_is,
        user=USER,
        description=text,
        backend=one_of("auto", "embedded", "podman", "docker", "incus"),
        require=listed(NAME),
        isolation=one_of("strict", "best-effort"),
        base=_BASE,
        limits=_LIMITS,
        secrets=listed(Table(model.Secret, _needed(env=ENV_NAME) | _optional(optional=truth), short="env")),
        environment=mapped(ENV_NAME, text),
        network=_NETWORK,
        repositories=listed(
            Table(model.Repository, _needed(path=host_folder, url=repository_address) | _optional(ref=REF))
        ),
        rewrites=listed(Table(model.Rewrite, _needed(match=rewritten, target=rewrite_target))),
        packages=listed(
            Table(
                model.Package,
                _needed(name=PACKAGE_NAME) | _optional(wheel_path=host_file, wheel_from_git=_WHEEL_FROM_GIT),
                exactly_one("wheel_path", "wheel_from_git"),
            )
        ),
        uv=Table(model.UvPolicy, _optional(github_fast_path=truth, lock=one_of("refuse", "relock"))),
        mocks=listed(
            Table(model.Mock, _needed(name=NAME, run=filled, port=PORT) | _optional(domains=listed(HOST_NAME)))
        ),
        provision=Table(model.Provision, _optional(files=listed(PUSHED_FILE), commands=listed(COMMAND))),
        update=Table(model.Update, _optional(commands=listed(COMMAND), refresh_packages=truth)),
        readiness=listed(READINESS),
        access=Table(
            model.Access,
            _optional(
                hostname=HOST_NAME,
                ports=listed(
                    Table(model.Port, _needed(container=PORT) | _optional(host=FREE_PORT, label=text, path=filled))
                ),
            ),
            _whole_access,
        ),
        checks=listed(_CHECK),
        artifacts=listed(inner_path),
        on_failure=one_of("keep", "destroy"),
    ),
)
