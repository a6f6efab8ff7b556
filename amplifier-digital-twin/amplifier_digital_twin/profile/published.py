"""Read a profile in the published format (no `dtu` key) and translate it; what cannot be kept is noted or refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, model_validator

from amplifier_digital_twin.profile import model, values
from amplifier_digital_twin.profile.load import ProblemsError, validated
from amplifier_digital_twin.profile.model import Model
from amplifier_digital_twin.profile.quantities import parse_size
from amplifier_digital_twin.profile.values import Listed, Reading
from amplifier_digital_twin.profile.variables import Keys, Problems, Variable, references, resolve, substitute

#: Commands there run as root.
_ROOT: Final = model.User(name="root", uid=0)
#: Keys that only ours have: a file with one of them and no `dtu: 1` was meant to be in our format.
_OURS: Final = ("backend", "checks", "network", "repositories", "vars", "packages", "limits", "artifacts", "mocks")


class _Base(Model):
    image: values.Filled
    config: dict[str, Any] = Field(default_factory=dict)


class _Auth(Model):
    username: values.Text = ""
    token_var: values.EnvName | None = None


class _Rule(Model):
    match: values.Filled
    target: values.Filled
    match_mode: values.Filled | None = None


class _UrlRewrites(Model):
    auth: _Auth | None = None
    allow_uv_github_fast_path: values.Truth = False
    rules: Listed[_Rule] = ()


class _WheelFromGit(Model):
    repo: values.Filled
    ref: values.Ref | None = None
    username: values.Text | None = None
    token_var: values.EnvName | None = None
    build_cmd: values.Filled | None = None
    wheel_glob: values.Filled | None = None


class _Package(Model):
    name: values.PackageName
    wheel_var: values.EnvName | None = None
    wheel_path: values.Filled | None = None
    wheel_from_git: _WheelFromGit | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        model.exactly_one(self, "wheel_var", "wheel_path", "wheel_from_git")
        return self


class _Overrides(Model):
    packages: Listed[_Package] = ()


class _Service(Model):
    name: values.Filled
    key_env: values.EnvName | None = None


class _Passthrough(Model):
    allow_external: values.Truth = False
    services: Listed[_Service] = ()


class _File(model.PushedFile):
    mode: values.LoosePermissions | None = None


class _Provision(Model):
    files: Listed[_File] = ()
    setup_cmds: Listed[values.Filled] = ()


class _Update(Model):
    cmds: Listed[values.Filled] = ()
    refresh_pypi: values.Truth = False


class _Port(model.Port):
    verify: values.Truth = False
    verify_timeout: values.Duration = 60.0
    verify_interval: values.Duration = 1.0


class _Access(Model):
    hostname: values.HostName | None = None
    ports: Listed[_Port] = ()


class _Mock(Model):
    source: values.Filled
    config: values.Json = None

    nullable: ClassVar[frozenset[str]] = frozenset({"config"})


class PublishedProfile(Model):
    """Every key of the published format."""

    name: values.Filled | None = None
    description: values.Text = ""
    base: _Base
    url_rewrites: _UrlRewrites = _UrlRewrites()
    pypi_overrides: _Overrides = _Overrides()
    passthrough: _Passthrough = _Passthrough()
    provision: _Provision = _Provision()
    update: _Update = _Update()
    access: _Access = _Access()
    readiness: Listed[model.Readiness] = ()
    mock_services: Listed[_Mock] = ()


def read_published(reading: Reading, given: Mapping[str, str]) -> model.Profile:
    """Return the profile that a published one asks for, as far as ours enforces it; raise ProblemsError."""
    raw = reading.document.data
    if ours := [key for key in _OURS if key in raw]:
        problem = f"{ours[0]!r} is a key of version 1, but the file has no 'dtu': add 'dtu: 1'"
        raise ProblemsError([((ours[0],), problem)])
    problems: Problems = []
    names = sorted(references(raw) | _named_variables(raw))
    known = resolve(dict.fromkeys(names, Variable()), given, reading, problems)
    filled = substitute(raw, known, problems)
    if problems:
        raise ProblemsError(problems)
    reading.home = _ROOT.home
    published = validated(PublishedProfile, filled, reading)
    if published.mock_services:
        problem = "a mock service of another tool cannot run here: write 'dtu: 1' and its command under 'mocks'"
        raise ProblemsError([(("mock_services",), problem)])
    translation = _Translation(published, reading, {name: str(value) for name, value in known.items()})
    profile = translation.profile()
    problems = translation.problems + list(model.conflicts(profile))
    if problems:
        raise ProblemsError(problems)
    reading.notes.append("published format: commands run as root; 'dtu: 1' has checks, limits and a user")
    return profile


def _named_variables(raw: Any) -> set[str]:
    """Return the variables that are named without `${}`: `wheel_var` and `token_var`."""
    if isinstance(raw, list):
        return set().union(*map(_named_variables, raw))
    if not isinstance(raw, dict):
        return set()
    own = {raw[key] for key in ("wheel_var", "token_var") if isinstance(raw.get(key), str)}
    return own.union(*map(_named_variables, raw.values()))


class _Translation:
    """A published profile in our words."""

    def __init__(self, published: PublishedProfile, reading: Reading, variables: Mapping[str, str]) -> None:
        self._published = published
        self._reading = reading
        self._variables = variables
        self._repositories: list[model.Repository] = []
        self._rewrites: list[model.Rewrite] = []
        self.problems: Problems = []

    def profile(self) -> model.Profile:
        """Return the profile; what is wrong is in `problems`, what is not kept in the notes of the reading."""
        published = self._published
        self._read_rules()
        packages = [self._package(index, item) for index, item in enumerate(published.pypi_overrides.packages)]
        ports = published.access.ports
        return model.Profile(
            name=self._name(),
            path=self._reading.document.path,
            description=published.description,
            base=model.Base(image=published.base.image),
            user=_ROOT,
            limits=self._limits(),
            secrets=self._secrets(),
            network=self._network(),
            repositories=tuple(self._repositories),
            rewrites=tuple(self._rewrites),
            packages=tuple(package for package in packages if package is not None),
            uv=model.UvPolicy(github_fast_path=published.url_rewrites.allow_uv_github_fast_path),
            provision=model.Provision.model_construct(
                files=published.provision.files,
                commands=tuple(model.Command(run=run) for run in published.provision.setup_cmds),
            ),
            update=model.Update(
                commands=tuple(model.Command(run=run) for run in published.update.cmds),
                refresh_packages=published.update.refresh_pypi,
            ),
            readiness=(*published.readiness, *(_verification(port) for port in ports if port.verify)),
            access=model.Access(
                hostname=published.access.hostname,
                ports=tuple(
                    model.Port(container=port.container, host=port.host, label=port.label, path=port.path)
                    for port in ports
                ),
            ),
        )

    def _note(self, text: str) -> None:
        self._reading.notes.append(text)

    def _name(self) -> str:
        given = self._published.name or self._reading.document.path.stem
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-._")[:63] or "universe"
        if name != given:
            self._note(f"name: {name!r} is used for {given!r}")
        return name

    def _limits(self) -> model.Limits:
        # Commands run as root, whose files no sized file system holds.
        limits: dict[str, Any] = {"disk": None}
        for key, value in self._published.base.config.items():
            try:
                if key == "limits.memory":
                    limits["memory"] = parse_size(value)
                elif key == "limits.cpu":
                    limits["cpus"] = float(value)
                else:
                    self._note(f"base.config: {key!r} is a setting of another engine and is not applied")
            except (ValueError, TypeError) as error:
                self.problems.append((("base", "config", key), f"cannot be read: {value!r}: {error}"))
        return model.Limits(**limits)

    def _secrets(self) -> tuple[model.Secret, ...]:
        services = self._published.passthrough.services
        for service in services:
            hint = "list its host under network.allow ('dtu: 1')"
            self._note(f"passthrough.services: {service.name!r} is not reachable: {hint}")
        names = dict.fromkeys(service.key_env for service in services if service.key_env)
        return tuple(model.Secret(env=name, optional=True) for name in names)

    def _network(self) -> model.Network:
        if not self._published.passthrough.allow_external:
            self._note("network: nothing outside can be reached (allow_external is not true, and enforced)")
            return model.Network(mode="none")
        self._note(
            "network: allow_external opens the package index and the Debian mirror only; for more, list the hosts under"
            " network.allow in a profile with 'dtu: 1'"
        )
        return model.Network(mode="gateway", allow=("@package-index", "@apt"))

    def _read_rules(self) -> None:
        for index, rule in enumerate(self._published.url_rewrites.rules):
            keys: Keys = ("url_rewrites", "rules", index)
            if rule.match_mode is not None:
                self._note(
                    f"url_rewrites.rules[{index}]: match_mode is not used: a match always ends where a part of the"
                    " path does"
                )
            try:
                match = values.rewritten_address(rule.match.partition("://")[2] or rule.match).rstrip("/")
                if _is_address(rule.target):
                    target = values.web_address(rule.target)
                    self._rewrites.append(model.Rewrite(match=match, target=target))
                else:
                    url = values.repository_address(f"https://{match}")
                    self._add_repository(self._folder(rule.target), url)
            except ValueError as error:
                self.problems.append((keys, str(error)))
        if self._published.url_rewrites.auth and self._rewrites:
            self._note("url_rewrites.auth: no credentials are sent; targets must be readable without")

    def _package(self, index: int, item: _Package) -> model.Package | None:
        keys: Keys = ("pypi_overrides", "packages", index)
        try:
            if item.wheel_from_git is not None:
                built = self._wheel_from_git(item.wheel_from_git, keys)
                return model.Package.model_construct(name=item.name, wheel_from_git=built)
            if item.wheel_path is not None:
                path = self._wheel(item.wheel_path, None)
            elif item.wheel_var is not None and item.wheel_var in self._variables:
                path = self._wheel(self._variables[item.wheel_var], Path.cwd())
            else:
                hint = f"give the path of the wheel with --var {item.wheel_var}=PATH"
                raise ValueError(f"the variable {item.wheel_var!r} has no value: {hint}")
            return model.Package.model_construct(name=item.name, wheel_path=path)
        except ValueError as error:
            self.problems.append((keys, str(error)))
            return None

    def _wheel(self, path: str, folder: Path | None) -> Path:
        found = self._reading.host_path(path, folder)
        if not found.is_file():
            raise ValueError(f"no such wheel: {str(found)!r}: build it first, and give its path")
        return found

    def _wheel_from_git(self, item: _WheelFromGit, keys: Keys) -> model.WheelFromGit:
        if item.username is not None or item.token_var is not None:
            self._note(f"{keys[0]}.packages[{keys[2]}]: no credentials are used: wheels are built from local trees")
        repo = item.repo
        if not _is_address(repo):
            folder = self._folder(repo)
            known = [repository.url for repository in self._repositories if repository.path == folder]
            repo = known[0] if known else f"https://local.invalid/{folder.name}"
            if not known:
                self._add_repository(folder, repo)
        elif model.same_repository(repo) not in {model.same_repository(item.url) for item in self._repositories}:
            hint = "clone it, and add a rule to url_rewrites whose target is the folder"
            raise ValueError(f"{repo!r} is not a local working tree: {hint}")
        given = {"ref": item.ref, "build": item.build_cmd, "glob": item.wheel_glob}
        return model.WheelFromGit(repo=repo, **{key: value for key, value in given.items() if value is not None})

    def _add_repository(self, folder: Path, url: str) -> None:
        self._repositories.append(model.Repository.model_construct(path=folder, url=url))

    def _folder(self, target: str) -> Path:
        path = unquote(urlsplit(target).path) if target.startswith("file://") else target
        folder = self._reading.host_path(path)
        if not folder.is_dir():
            raise ValueError(f"no such folder: {str(folder)!r}: give the folder of a working tree, or an address")
        return folder


def _verification(port: _Port) -> model.Readiness:
    return model.Readiness(
        name=f"port-{port.container}",
        http=model.HttpProbe(url=f"http://localhost:{port.container}{port.path}"),
        timeout=port.verify_timeout,
        interval=port.verify_interval,
    )


def _is_address(target: str) -> bool:
    return target.startswith(("http://", "https://"))
