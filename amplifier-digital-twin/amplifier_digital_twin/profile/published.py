"""Read a profile in the published format (no `dtu` key) and say it in ours; what cannot be kept is noted or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from amplifier_digital_twin.profile import model
from amplifier_digital_twin.profile.kinds import (
    Key,
    Table,
    amount,
    duration,
    exactly_one,
    filled,
    json_value,
    listed,
    mapped,
    permissions,
    text,
    truth,
    wrong,
)
from amplifier_digital_twin.profile.places import Reading, Where
from amplifier_digital_twin.profile.published_sources import Sources, read_sources
from amplifier_digital_twin.profile.quantities import parse_size
from amplifier_digital_twin.profile.rules import check_rules
from amplifier_digital_twin.profile.schema import (
    ENV_NAME,
    FREE_PORT,
    HOST_NAME,
    NAME,
    PACKAGE_NAME,
    PORT,
    PUSHED_FILE,
    READINESS,
    REF,
)
from amplifier_digital_twin.profile.variables import Variable, references, resolve, substitute

_MAPPING: Callable[..., dict[str, Any]] = dict
#: Commands there run as root.
_ROOT: Final = model.User("root", 0)


def _keys(**kinds: Any) -> dict[str, Key[Any]]:
    """Make the keys of a table; a trailing underscore in a name means that the key must be there."""
    return {name.rstrip("_"): Key(kind, name.endswith("_")) for name, kind in kinds.items()}


def _loose_permissions(value: Any, where: Where) -> int:
    """Take permissions as a text, or as the number that YAML makes of 0644."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0o777:
        return value
    return permissions(value, where)


def _loose(value: Any, where: Where) -> Any:
    """Take a setting of a container engine: a text, a number or a truth value."""
    if isinstance(value, str | int | float):
        return value
    raise wrong(where, value, "a text or a number")


_FILE = Table(PUSHED_FILE.make, {**PUSHED_FILE.keys, "mode": Key(_loose_permissions)})
_WHEEL_FROM_GIT = Table(
    _MAPPING,
    _keys(repo_=filled, ref=REF, username=text, token_var=ENV_NAME, build_cmd=filled, wheel_glob=filled),
)
_PACKAGE = Table(
    _MAPPING,
    _keys(name_=PACKAGE_NAME, wheel_var=ENV_NAME, wheel_path=filled, wheel_from_git=_WHEEL_FROM_GIT),
    exactly_one("wheel_var", "wheel_path", "wheel_from_git"),
)
_PORT = Table(
    _MAPPING,
    _keys(
        host=FREE_PORT,
        container_=PORT,
        label=text,
        path=filled,
        verify=truth,
        verify_timeout=duration,
        verify_interval=duration,
    ),
)
_PUBLISHED = Table(
    _MAPPING,
    _keys(
        name=filled,
        description=text,
        base_=Table(_MAPPING, _keys(image_=filled, config=mapped(filled, _loose))),
        url_rewrites=Table(
            _MAPPING,
            _keys(
                auth=Table(_MAPPING, _keys(username=text, token_var=ENV_NAME)),
                allow_uv_github_fast_path=truth,
                rules=listed(Table(_MAPPING, _keys(match_=filled, target_=filled, match_mode=filled))),
            ),
        ),
        pypi_overrides=Table(_MAPPING, _keys(packages=listed(_PACKAGE))),
        passthrough=Table(
            _MAPPING,
            _keys(allow_external=truth, services=listed(Table(_MAPPING, _keys(name_=filled, key_env=ENV_NAME)))),
        ),
        provision=Table(_MAPPING, _keys(files=listed(_FILE), setup_cmds=listed(filled))),
        update=Table(_MAPPING, _keys(cmds=listed(filled), refresh_pypi=truth)),
        access=Table(_MAPPING, _keys(hostname=HOST_NAME, ports=listed(_PORT))),
        readiness=listed(READINESS),
        mock_services=listed(Table(_MAPPING, _keys(source_=filled, config=json_value))),
    ),
)
#: Keys that only ours have: who uses one of them without `dtu: 1` meant our format.
_OURS: Final = ("backend", "checks", "network", "repositories", "vars", "packages", "limits", "artifacts", "mocks")


def read_published(reading: Reading, given: Mapping[str, str]) -> model.Profile:
    """Return the profile that a published one asks for, as far as ours enforces it; raise FaultyError."""
    where = Where(reading)
    raw = reading.document.data
    for key in _OURS:
        if key in raw:
            raise where.at(key).fault(f"{key!r} is a key of version 1, but the file has no 'dtu'", "add 'dtu: 1'")
    _PUBLISHED.check_keys(raw, where)
    values = resolve(dict.fromkeys(sorted(references(raw) | _named_variables(raw)), Variable()), given, where)
    reading.home = _ROOT.home
    data = _PUBLISHED(substitute(raw, values, where), where)
    if data.get("mock_services"):
        raise where.at("mock_services").fault(
            "a mock service of another tool cannot be run here",
            "write a profile with 'dtu: 1' and the service's command under 'mocks'",
        )
    sources = read_sources(data, {name: str(value) for name, value in values.items()}, where)
    profile = _profile(data, sources, where)
    check_rules(profile, where)
    reading.notes.append("published format: commands run as root; 'dtu: 1' has checks, limits and a user")
    return profile


def _named_variables(raw: Any) -> set[str]:
    """Return the variables that are named without `${}`: `wheel_var` and `token_var`."""
    if isinstance(raw, list):
        return set().union(*(_named_variables(item) for item in raw))
    if not isinstance(raw, dict):
        return set()
    own = {raw[key] for key in ("wheel_var", "token_var") if isinstance(raw.get(key), str)}
    return own.union(*(_named_variables(item) for item in raw.values()))


def _profile(data: Mapping[str, Any], sources: Sources, where: Where) -> model.Profile:
    provision, update = data.get("provision", {}), data.get("update", {})
    access = data.get("access", {})
    ports = access.get("ports", ())
    return model.Profile(
        name=_name(data, where),
        path=where.reading.document.path,
        description=data.get("description", ""),
        base=model.Base(image=data["base"]["image"]),
        user=_ROOT,
        limits=_limits(dict(data["base"].get("config", ())), where),
        secrets=_secrets(data, where),
        network=_network(data, where),
        repositories=sources.repositories,
        rewrites=sources.rewrites,
        packages=sources.packages,
        uv=model.UvPolicy(data.get("url_rewrites", {}).get("allow_uv_github_fast_path", False)),
        provision=model.Provision(
            tuple(provision.get("files", ())), tuple(model.Command(run) for run in provision.get("setup_cmds", ()))
        ),
        update=model.Update(
            tuple(model.Command(run) for run in update.get("cmds", ())), update.get("refresh_pypi", False)
        ),
        readiness=(*data.get("readiness", ()), *(_verification(port) for port in ports if port.get("verify"))),
        access=model.Access(
            access.get("hostname"),
            tuple(
                model.Port(port["container"], port.get("host", 0), port.get("label", ""), port.get("path", "/"))
                for port in ports
            ),
        ),
    )


def _name(data: Mapping[str, Any], where: Where) -> str:
    given = data.get("name", where.reading.document.path.stem)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-._")[:63] or "universe"
    if name != given:
        where.reading.notes.append(f"name: {name!r} is used for {given!r}")
    return NAME(name, where.at("name"))


def _limits(config: Mapping[str, Any], where: Where) -> model.Limits:
    limits: dict[str, Any] = {}
    place = where.at("base", "config")
    for key, value in config.items():
        if key == "limits.memory":
            try:
                limits["memory"] = parse_size(value)
            except ValueError as error:
                raise place.at(key).fault(f"cannot be read: {value!r}", str(error)) from None
        elif key == "limits.cpu":
            number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
            limits["cpus"] = amount(number, place.at(key))
        else:
            where.reading.notes.append(f"base.config: {key!r} is a setting of another engine and is not applied")
    return model.Limits(**limits)


def _secrets(data: Mapping[str, Any], where: Where) -> tuple[model.Secret, ...]:
    services = data.get("passthrough", {}).get("services", ())
    for service in services:
        where.reading.notes.append(
            f"passthrough.services: {service['name']!r} is not reachable: list its host under network.allow ('dtu: 1')"
        )
    names = dict.fromkeys(service["key_env"] for service in services if "key_env" in service)
    return tuple(model.Secret(name, optional=True) for name in names)


def _network(data: Mapping[str, Any], where: Where) -> model.Network:
    if not data.get("passthrough", {}).get("allow_external", False):
        where.reading.notes.append("network: nothing outside can be reached (allow_external is not true, and enforced)")
        return model.Network("none")
    where.reading.notes.append(
        "network: allow_external opens the package index and the Debian mirror only; for more, list the hosts under"
        " network.allow in a profile with 'dtu: 1'"
    )
    return model.Network("gateway", ("@package-index", "@apt"))


def _verification(port: Mapping[str, Any]) -> model.Readiness:
    return model.Readiness(
        name=f"port-{port['container']}",
        http=model.HttpProbe(f"http://localhost:{port['container']}{port.get('path', '/')}"),
        timeout=port.get("verify_timeout", 60.0),
        interval=port.get("verify_interval", 1.0),
    )
