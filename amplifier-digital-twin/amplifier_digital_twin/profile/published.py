"""Read a profile in the published format (no `dtu` key) and translate it; what cannot be kept is noted or refused."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field, JsonValue

from amplifier_digital_twin.profile import model
from amplifier_digital_twin.profile.load import ProblemsError, references, resolve, substitute, validated
from amplifier_digital_twin.profile.model import FOLDER, Duration, EnvName, Keys, Listed, Model
from amplifier_foundation.documents import Document
from amplifier_kit.config import Text

#: Keys that only ours have: a file with one of them and no `dtu: 1` was meant to be in our format.
_OURS: Final = ("backend", "checks", "network", "repositories", "vars", "packages", "limits", "artifacts", "mocks")


class _Base(Model):
    image: Text
    config: dict[str, JsonValue] = Field(default_factory=dict)


class _Auth(Model):
    username: str = ""
    token_var: EnvName | None = None


class _Rule(Model):
    match: Text
    target: Text
    match_mode: Text | None = None


class _UrlRewrites(Model):
    auth: _Auth | None = None
    allow_uv_github_fast_path: bool = False
    rules: Listed[_Rule] = ()


class _WheelFromGit(Model):
    repo: Text
    ref: model.Ref | None = None
    username: str | None = None
    token_var: EnvName | None = None
    build_cmd: Text | None = None
    wheel_glob: Text | None = None


class _Package(Model):
    name: model.PackageName
    wheel_var: EnvName | None = None
    wheel_path: Text | None = None
    wheel_from_git: _WheelFromGit | None = None


class _Overrides(Model):
    packages: Listed[_Package] = ()


class _Service(Model):
    name: Text
    key_env: EnvName | None = None


class _Passthrough(Model):
    allow_external: bool = False
    services: Listed[_Service] = ()


def _octal(value: Any) -> Any:
    """Return permissions as ours write them; YAML reads 0644 as a number."""
    return f"{value:04o}" if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0o777 else value


class _File(model.PushedFile):
    mode: Annotated[model.Permissions, BeforeValidator(_octal)] | None = None


class _Provision(Model):
    files: Listed[_File] = ()
    setup_cmds: Listed[Text] = ()


class _Update(Model):
    cmds: Listed[Text] = ()
    refresh_pypi: bool = False


class _Port(model.ForwardedPort):
    verify: bool = False
    verify_timeout: Duration = 60.0
    verify_interval: Duration = 1.0


class _Access(Model):
    hostname: model.HostName | None = None
    ports: Listed[_Port] = ()


class _Mock(Model):
    source: Text
    config: JsonValue = None


class PublishedProfile(Model):
    """Every key of the published format."""

    name: Text | None = None
    description: str = ""
    base: _Base
    url_rewrites: _UrlRewrites = _UrlRewrites()
    pypi_overrides: _Overrides = _Overrides()
    passthrough: _Passthrough = _Passthrough()
    provision: _Provision = _Provision()
    update: _Update = _Update()
    access: _Access = _Access()
    readiness: Listed[model.Readiness] = ()
    mock_services: Listed[_Mock] = ()


def read_published(document: Document, given: Mapping[str, str]) -> tuple[model.Profile, list[str]]:
    """Return the profile that a published one asks for, as far as ours enforces it, and notes; raise ProblemsError."""
    raw = document.data
    if ours := [key for key in _OURS if key in raw]:
        problem = f"{ours[0]!r} is a key of version 1, but the file has no 'dtu': add 'dtu: 1'"
        raise ProblemsError([((ours[0],), problem)])
    names = sorted(references(raw) | _named_variables(raw))
    known, problems = resolve(dict.fromkeys(names, model.Variable()), given, FOLDER.get())
    filled, missing = substitute(raw, known)
    if problems or missing:
        raise ProblemsError([*problems, *missing])
    published = validated(PublishedProfile, filled)
    if published.mock_services:
        problem = "a mock service of another tool cannot run here: write 'dtu: 1' and its command under 'mocks'"
        raise ProblemsError([(("mock_services",), problem)])
    translation = _Translation(published, {name: str(value) for name, value in known.items()})
    profile = translation.profile(document.path.stem)
    if problems := [*translation.problems, *model.conflicts(profile)]:
        raise ProblemsError(problems)
    notes = [*translation.notes, "published format: commands run as root; 'dtu: 1' has checks, limits and a user"]
    return profile, notes


def _named_variables(raw: Any) -> set[str]:
    """Return the variables that are named without `${}`: `wheel_var` and `token_var`."""
    if not isinstance(raw, dict | list):
        return set()
    items = raw.values() if isinstance(raw, dict) else raw
    own = {raw[key] for key in ("wheel_var", "token_var") if isinstance(raw, dict) and isinstance(raw.get(key), str)}
    return own.union(*map(_named_variables, items))


class _Translation:
    """A published profile in our words; what is wrong is in `problems`, what is not kept in `notes`."""

    def __init__(self, published: PublishedProfile, variables: Mapping[str, str]) -> None:
        self._published = published
        self._variables = variables
        self._repositories: list[model.Repository] = []
        self.problems: list[tuple[Keys, str]] = []
        self.notes: list[str] = []

    def profile(self, stem: str) -> model.Profile:
        published, access = self._published, self._published.access
        given = published.name or stem
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-._")[:63] or "universe"
        if name != given:
            self.notes.append(f"name: {name!r} is used for {given!r}")
        rules = enumerate(published.url_rewrites.rules)
        rewrites = [rewrite for index, rule in rules if (rewrite := self._rewrite(index, rule)) is not None]
        if published.url_rewrites.auth and rewrites:
            self.notes.append("url_rewrites.auth: no credentials are sent; targets must be readable without")
        packages = [self._package(index, item) for index, item in enumerate(published.pypi_overrides.packages)]
        services = published.passthrough.services
        for service in services:
            hint = "list its host under network.allow ('dtu: 1')"
            self.notes.append(f"passthrough.services: {service.name!r} is not reachable: {hint}")
        keys = dict.fromkeys(service.key_env for service in services if service.key_env)
        ports = [port.model_dump(include=set(model.ForwardedPort.model_fields)) for port in access.ports]
        return model.Profile(
            name=name,
            description=published.description,
            base=model.Base(image=published.base.image),
            user=model.ROOT,
            limits=self._limits(),
            secrets=tuple(model.Secret(env=key, optional=True) for key in keys),
            network=self._network(),
            repositories=tuple(self._repositories),
            rewrites=tuple(rewrites),
            packages=tuple(package for package in packages if package is not None),
            uv=model.UvPolicy(github_fast_path=published.url_rewrites.allow_uv_github_fast_path),
            provision=model.Provision(
                files=published.provision.files, commands=_commands(published.provision.setup_cmds)
            ),
            update=model.Update(
                commands=_commands(published.update.cmds), refresh_packages=published.update.refresh_pypi
            ),
            readiness=(*published.readiness, *(_verification(port) for port in access.ports if port.verify)),
            access=model.Access(hostname=access.hostname, ports=tuple(model.ForwardedPort(**port) for port in ports)),
        )

    def _limits(self) -> model.Limits:
        names = {"limits.memory": "memory", "limits.cpu": "cpus"}
        config = self._published.base.config
        for key in config.keys() - names.keys():
            self.notes.append(f"base.config: {key!r} is a setting of another engine and is not applied")
        # Commands run as root, whose files no sized file system holds. There, numbers are text.
        wanted = {names[key]: value for key, value in config.items() if key in names} | {"disk": None}
        try:
            return model.Limits.model_validate(wanted, strict=False)
        except ValueError as error:
            self.problems.append((("base", "config"), str(error)))
            return model.Limits()

    def _network(self) -> model.Network:
        if not self._published.passthrough.allow_external:
            self.notes.append("network: nothing outside can be reached (allow_external is not true, and enforced)")
            return model.Network(mode="none")
        self.notes.append(
            "network: allow_external opens the package index and the Debian mirror only; for more, list the hosts under"
            " network.allow in a profile with 'dtu: 1'"
        )
        return model.Network(mode="gateway", allow=("@package-index", "@apt"))

    def _rewrite(self, index: int, rule: _Rule) -> model.Rewrite | None:
        """Return a rule as a rewrite; None when it leads to a working tree, or cannot be kept."""
        if rule.match_mode is not None:
            why = "match_mode is not used: a match always ends where a part of the path does"
            self.notes.append(f"url_rewrites.rules[{index}]: {why}")
        try:
            match = model.rewritten_address(rule.match.partition("://")[2] or rule.match).rstrip("/")
            if _is_address(rule.target):
                return model.Rewrite(match=match, target=rule.target)
            url = model.repository_address(f"https://{match}")
            self._repositories.append(model.Repository(path=_folder(rule.target), url=url))
        except ValueError as error:
            self.problems.append((("url_rewrites", "rules", index), str(error)))
        return None

    def _package(self, index: int, item: _Package) -> model.Package | None:
        try:
            if [item.wheel_var, item.wheel_path, item.wheel_from_git].count(None) != 2:
                raise ValueError("exactly one of wheel_var, wheel_path, wheel_from_git is needed")
            if item.wheel_from_git is not None:
                return model.Package(name=item.name, wheel_from_git=self._wheel_from_git(index, item.wheel_from_git))
            if item.wheel_path is not None:
                return model.Package(name=item.name, wheel_path=Path(item.wheel_path))
            if item.wheel_var not in self._variables:
                hint = f"give the path of the wheel with --var {item.wheel_var}=PATH"
                raise ValueError(f"the variable {item.wheel_var!r} has no value: {hint}")
            return model.Package(name=item.name, wheel_path=Path.cwd() / self._variables[item.wheel_var or ""])
        except ValueError as error:
            self.problems.append((("pypi_overrides", "packages", index), str(error)))
            return None

    def _wheel_from_git(self, index: int, item: _WheelFromGit) -> model.WheelFromGit:
        if item.username is not None or item.token_var is not None:
            why = "no credentials are used: wheels come from local trees"
            self.notes.append(f"pypi_overrides.packages[{index}]: {why}")
        repo = item.repo
        if not _is_address(repo):
            folder = _folder(repo)
            # Without a public address, it gets one that leads nowhere else.
            fresh = model.Repository(path=folder, url=f"https://local.invalid/{folder.name}")
            found = next((each for each in self._repositories if each.path == folder), None)
            self._repositories += [] if found else [fresh]
            repo = (found or fresh).url
        elif model.same_repository(repo) not in {model.same_repository(each.url) for each in self._repositories}:
            hint = "clone it, and add a rule to url_rewrites whose target is the folder"
            raise ValueError(f"{repo!r} is not a local working tree: {hint}")
        given = {"ref": item.ref, "build": item.build_cmd, "glob": item.wheel_glob}
        return model.WheelFromGit(repo=repo, **{key: value for key, value in given.items() if value is not None})


def _commands(lines: Sequence[str]) -> tuple[model.Command, ...]:
    return tuple(model.Command(run=line) for line in lines)


def _folder(target: str) -> Path:
    """Return the absolute path of a working tree of the host, from a path or a `file:` address."""
    path = unquote(urlsplit(target).path) if target.startswith("file://") else target
    folder = FOLDER.get() / Path(path).expanduser()
    if not folder.is_dir():
        raise ValueError(f"no such folder: {str(folder)!r}: give the folder of a working tree, or an address")
    return Path(os.path.abspath(folder))


def _verification(port: _Port) -> model.Readiness:
    return model.Readiness(
        name=f"port-{port.container}",
        http=model.HttpProbe(url=f"http://localhost:{port.container}{port.path}"),
        timeout=port.verify_timeout,
        interval=port.verify_interval,
    )


def _is_address(target: str) -> bool:
    return target.startswith(("http://", "https://"))
