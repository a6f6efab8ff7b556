"""Where a published profile takes code from: rules that send addresses elsewhere, and wheels of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from amplifier_digital_twin.profile import model
from amplifier_digital_twin.profile.places import Where
from amplifier_digital_twin.profile.rules import same_repository
from amplifier_digital_twin.profile.schema import repository_address, rewritten, web_address


class Sources(NamedTuple):
    """Working trees, addresses that are answered elsewhere, and names of the package index that are answered here."""

    repositories: tuple[model.Repository, ...]
    rewrites: tuple[model.Rewrite, ...]
    packages: tuple[model.Package, ...]


def read_sources(data: Mapping[str, Any], variables: Mapping[str, str], where: Where) -> Sources:
    """Return what `url_rewrites` and `pypi_overrides` ask for; raise FaultyError."""
    repositories: list[model.Repository] = []
    rewrites: list[model.Rewrite] = []
    _read_rules(data.get("url_rewrites", {}), repositories, rewrites, where.at("url_rewrites"))
    packages = tuple(
        _package(item, variables, repositories, where.at("pypi_overrides", "packages", index))
        for index, item in enumerate(data.get("pypi_overrides", {}).get("packages", ()))
    )
    return Sources(tuple(repositories), tuple(rewrites), packages)


def _read_rules(
    section: Mapping[str, Any],
    repositories: list[model.Repository],
    rewrites: list[model.Rewrite],
    where: Where,
) -> None:
    notes = where.reading.notes
    for index, rule in enumerate(section.get("rules", ())):
        place = where.at("rules", index)
        match = rewritten(rule["match"].partition("://")[2] or rule["match"], place.at("match"))
        if "match_mode" in rule:
            notes.append(f"{place.name}: match_mode is not used: a match always ends where a part of the path does")
        if _is_address(rule["target"]):
            rewrites.append(model.Rewrite(match.rstrip("/"), web_address(rule["target"], place.at("target"))))
            continue
        address = repository_address(f"https://{match}", place.at("match"))
        folder = _folder(rule["target"], place.at("target"))
        repositories.append(model.Repository(folder, address.rstrip("/")))
    if section.get("auth") and rewrites:
        notes.append("url_rewrites.auth: no credentials are sent; targets must be readable without")


def _package(
    item: Mapping[str, Any],
    variables: Mapping[str, str],
    repositories: list[model.Repository],
    where: Where,
) -> model.Package:
    if "wheel_from_git" in item:
        return model.Package(item["name"], wheel_from_git=_wheel_from_git(item["wheel_from_git"], repositories, where))
    if "wheel_path" in item:
        return model.Package(item["name"], wheel_path=_wheel(item["wheel_path"], where.at("wheel_path")))
    name = item["wheel_var"]
    if name not in variables:
        raise where.at("wheel_var").fault(
            f"the variable {name!r} has no value", f"give the path of the wheel: --var {name}=PATH"
        )
    return model.Package(item["name"], wheel_path=_wheel(variables[name], where.at("wheel_var"), is_given=True))


def _wheel(path: str, where: Where, is_given: bool = False) -> Path:
    """Return the path of a wheel; one that was given on the command line starts from the current folder."""
    found = where.reading.host_path(path, where.reading.given_folder if is_given else None)
    if not found.is_file():
        raise where.fault(f"there is no wheel {str(found)!r}", "build it first, and give its path")
    return found


def _wheel_from_git(item: Mapping[str, Any], repositories: list[model.Repository], where: Where) -> model.WheelFromGit:
    place = where.at("wheel_from_git", "repo")
    if "username" in item or "token_var" in item:
        where.reading.notes.append(f"{place.name}: no credentials are used: wheels are built from local working trees")
    repo = item["repo"]
    if not _is_address(repo):
        repo = _add_folder(repo, repositories, place)
    elif same_repository(repo) not in {same_repository(repository.url) for repository in repositories}:
        raise place.fault(
            f"{repo!r} is no local working tree", "clone it, and add a rule to url_rewrites whose target is the folder"
        )
    defaults = model.WheelFromGit(repo)
    return model.WheelFromGit(
        repo,
        ref=item.get("ref"),
        build=item.get("build_cmd", defaults.build),
        glob=item.get("wheel_glob", defaults.glob),
    )


def _add_folder(path: str, repositories: list[model.Repository], where: Where) -> str:
    """Return the address of a working tree, which gets one that exists nowhere when no rule gave it one."""
    folder = _folder(path, where)
    for repository in repositories:
        if repository.path == folder:
            return repository.url
    url = f"https://local.invalid/{folder.name}"
    repositories.append(model.Repository(folder, url))
    return url


def _folder(target: str, where: Where) -> Path:
    path = unquote(urlsplit(target).path) if target.startswith("file://") else target
    folder = where.reading.host_path(path)
    if not folder.is_dir():
        raise where.fault(f"there is no folder {str(folder)!r}", "give the folder of a working tree, or an address")
    return folder


def _is_address(target: str) -> bool:
    return target.startswith(("http://", "https://"))
