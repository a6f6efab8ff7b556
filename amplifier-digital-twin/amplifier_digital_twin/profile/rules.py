"""What must hold between the parts of a profile, once each of them is fine by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from amplifier_digital_twin.profile.model import Profile
from amplifier_digital_twin.profile.places import Fault, FaultyError, Where
from amplifier_foundation.errors import did_you_mean


def check_rules(profile: Profile, where: Where) -> None:
    """Raise FaultyError with everything that does not fit together."""
    faults: list[Fault] = []
    for rule in (_names, _references, _wheels, _users, _environment):
        for fault in rule(profile, where):
            faults.extend(fault.faults)
    if faults:
        raise FaultyError(faults)


def same_package(name: str) -> str:
    """Return the form of a package's name in which equal names are equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def same_repository(url: str) -> str:
    """Return the form of a repository's address in which equal addresses are equal: host and path, no `.git`."""
    parts = urlsplit(url)
    return f"{parts.netloc}/{parts.path.strip('/').removesuffix('.git')}".lower()


def _names(profile: Profile, where: Where) -> Iterator[FaultyError]:
    yield from _twice((check.name for check in profile.checks), where.at("checks"))
    yield from _twice((item.name for item in profile.readiness), where.at("readiness"))
    yield from _twice((secret.env for secret in profile.secrets), where.at("secrets"))
    yield from _twice((mock.name for mock in profile.mocks), where.at("mocks"))
    yield from _twice((str(mock.port) for mock in profile.mocks), where.at("mocks"))
    yield from _twice((package.name for package in profile.packages), where.at("packages"), same_package)
    yield from _twice(
        (repository.url for repository in profile.repositories), where.at("repositories"), same_repository
    )
    domains = [(index, domain) for index, mock in enumerate(profile.mocks) for domain in mock.domains]
    seen: set[str] = set()
    for index, domain in domains:
        if domain.lower() in seen:
            yield where.at("mocks", index, "domains").fault(f"{domain!r} is answered twice", "keep one of them")
        seen.add(domain.lower())


def _twice(names: Iterable[str], where: Where, same: Callable[[str], str] = str) -> Iterator[FaultyError]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if same(name) in seen:
            yield where.at(index).fault(f"{name!r} is given twice", "give each of them once")
        seen.add(same(name))


def _references(profile: Profile, where: Where) -> Iterator[FaultyError]:
    mocks = [mock.name for mock in profile.mocks]
    for index, rewrite in enumerate(profile.rewrites):
        name = rewrite.target.removeprefix("mock:")
        if rewrite.target.startswith("mock:") and name not in mocks:
            hint = did_you_mean(name, mocks) if mocks else "add it under 'mocks'"
            yield where.at("rewrites", index, "target").fault(f"there is no mock {name!r}: {hint}", hint)


def _wheels(profile: Profile, where: Where) -> Iterator[FaultyError]:
    names = [repository.name for repository in profile.repositories]
    addresses = {same_repository(repository.url) for repository in profile.repositories}
    for index, package in enumerate(profile.packages):
        if package.wheel_from_git is None:
            continue
        repo, place = package.wheel_from_git.repo, where.at("packages", index, "wheel_from_git", "repo")
        if names.count(repo) > 1:
            yield place.fault(f"{repo!r} can mean several repositories", "give the whole address of the one you mean")
        elif repo not in names and same_repository(repo) not in addresses:
            hint = did_you_mean(repo, names) if names else "add it under 'repositories'"
            yield place.fault(f"{repo!r} is not one of the profile's repositories: {hint}", hint)


def _users(profile: Profile, where: Where) -> Iterator[FaultyError]:
    commands = [
        (("provision", "commands", index), command.user) for index, command in enumerate(profile.provision.commands)
    ]
    commands += [(("update", "commands", index), command.user) for index, command in enumerate(profile.update.commands)]
    asked: list[tuple[tuple[str | int, ...], str | None]] = [*commands]
    asked += [(("checks", index), check.user) for index, check in enumerate(profile.checks)]
    known = list(dict.fromkeys((profile.user.name, "root")))
    for keys, user in asked:
        if user is not None and user not in known:
            place = where.at(*keys, "user")
            yield place.fault(f"there is no user {user!r} in the universe", f"one of: {', '.join(known)}")


def _environment(profile: Profile, where: Where) -> Iterator[FaultyError]:
    secrets = {secret.env for secret in profile.secrets}
    for name, _ in profile.environment:
        if name in secrets:
            yield where.at("environment", name).fault(
                f"{name!r} is one of the secrets too", "keep it under 'secrets': its value then stays out of every file"
            )
