"""Profiles in the published format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile import model

_FULL = """
name: a published profile
description: as it was
base:
  image: ubuntu:24.04
  config: {limits.memory: 4GiB, limits.cpu: "2", security.nesting: true}
url_rewrites:
  auth: {username: admin, token_var: GITEA_TOKEN}
  allow_uv_github_fast_path: false
  rules:
    - {match: "https://github.com/owner/core", target: tree}
    - {match: github.com/owner/other, target: "${GITEA_URL}/admin/other", match_mode: prefix}
pypi_overrides:
  packages:
    - {name: core, wheel_var: CORE_WHEEL}
    - name: second
      wheel_from_git: {repo: "https://github.com/owner/core.git", ref: main, build_cmd: make, wheel_glob: "*.whl"}
    - {name: third, wheel_path: core-1.0-py3-none-any.whl}
passthrough:
  allow_external: true
  services: [{name: anthropic, key_env: ANTHROPIC_API_KEY}]
provision:
  files: [{src: file.txt, dest: ~/file.txt, recursive: false, create_dirs: true, mode: 0644, uid: 0, gid: 0}]
  setup_cmds: [apt-get update]
update: {cmds: [git pull], refresh_pypi: true}
access:
  hostname: twin
  ports: [{host: 8080, container: 80, label: web, path: /health, verify: true, verify_timeout: 5, verify_interval: 2}]
readiness:
  - {name: web, http: {url: "http://localhost:80/", expect_json: {ok: true}}}
  - {name: port, tcp: {port: 80}}
  - {name: command, command: "true"}
"""
_GIVEN = {"GITEA_URL": "http://gitea.example:3000", "CORE_WHEEL": "core-1.0-py3-none-any.whl", "GITEA_TOKEN": "t0ken"}


@pytest.fixture
def published(loaded: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the profile that uses every key."""
    monkeypatch.chdir(folder)
    return loaded(_FULL, **_GIVEN)


def test_every_published_key_is_accepted(published: Any, folder: Path) -> None:
    """A profile written for the published tool means here what it meant there."""
    profile = published.profile
    wheel = folder / "core-1.0-py3-none-any.whl"
    assert profile.base == model.Base(image="ubuntu:24.04")
    assert (profile.limits.memory, profile.limits.cpus) == (4 * 1024**3, 2.0)
    assert [(item.path, item.url) for item in profile.repositories] == [
        (folder / "tree", "https://github.com/owner/core")
    ]
    assert profile.rewrites == (
        model.Rewrite(match="github.com/owner/other", target="http://gitea.example:3000/admin/other"),
    )
    assert [package.wheel_path for package in profile.packages] == [wheel, None, wheel]
    assert profile.packages[1].wheel_from_git == model.WheelFromGit(
        repo="https://github.com/owner/core.git", ref="main", build="make", glob="*.whl"
    )
    assert profile.secrets == (model.Secret(env="ANTHROPIC_API_KEY", optional=True),)
    assert profile.provision.files[0].mode == 0o644
    assert profile.provision.commands == (model.Command(run="apt-get update"),)
    assert profile.update == model.Update(commands=(model.Command(run="git pull"),), refresh_packages=True)
    assert profile.access.ports == (model.ForwardedPort(container=80, host=8080, label="web", path="/health"),)
    assert [item.name for item in profile.readiness] == ["web", "port", "command", "port-80"]
    assert profile.readiness[3].http == model.HttpProbe(url="http://localhost:80/health")


def test_commands_of_published_profiles_run_as_root(published: Any) -> None:
    """Published profiles have no other user; `~` is root's home."""
    assert published.profile.user == model.User(name="root", uid=0)
    assert published.profile.provision.files[0].dest == "~/file.txt"
    assert any("commands run as root" in note for note in published.notes)


def test_external_access_is_what_it_says_and_no_more(published: Any) -> None:
    """`allow_external: true` opens the package index and the Debian mirror, and a note says so."""
    assert published.profile.network == model.Network(mode="gateway", allow=("@package-index", "@apt"))
    assert any("network.allow" in note for note in published.notes)


@pytest.mark.parametrize("passthrough", ["", "passthrough: {allow_external: false}\n"])
def test_external_access_is_denied_unless_allowed(loaded: Any, passthrough: str) -> None:
    """The switch is enforced, and absence is a denial."""
    assert loaded(f"base: {{image: host}}\n{passthrough}").profile.network == model.Network(mode="none")


def test_what_is_not_kept_is_noted(published: Any) -> None:
    """Settings of another engine, match modes, credentials and a changed name are all mentioned."""
    notes = "\n".join(published.notes)
    for words in ("security.nesting", "match_mode is not used", "no credentials are sent", "'a-published-profile'"):
        assert words in notes


def test_no_value_of_a_variable_is_repeated(published: Any) -> None:
    """A token that was given for nothing appears nowhere."""
    assert "t0ken" not in repr(published)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base: {image: host}\nvalidation_cmds: [x]\n", "unknown config key 'validation_cmds'"),
        ("base: {image: host}\nprovision: {setup_cmd: [x]}\n", "did you mean 'provision.setup_cmds'?"),
        ("name: x\n", "'base' is missing"),
        ("base: {config: {}}\n", "'base.image' is missing"),
        ("base: {image: host}\nchecks: []\n", "'checks' is a key of version 1"),
        ("base: {image: '${IMAGE}'}\n", "the variable ${IMAGE} has no value"),
        (
            "base: {image: host}\npypi_overrides: {packages: [{name: a, wheel_var: W}]}\n",
            "the variable 'W' has no value",
        ),
        ("base: {image: host}\npypi_overrides: {packages: [{name: a}]}\n", "exactly one of wheel_var"),
        (
            "base: {image: host}\npypi_overrides: {packages: [{name: a/b, wheel_path: x}]}\n",
            "the name of a Python package",
        ),
        ("base: {image: host}\nmock_services: [{source: x}]\n", "cannot run here"),
        (
            "base: {image: host}\nurl_rewrites: {rules: [{match: 'a.example/.*', target: tree}]}\n",
            "a host and at most a path",
        ),
        ("base: {image: host}\nurl_rewrites: {rules: [{match: a.example/o/r, target: nope}]}\n", "no such folder"),
        (
            "base: {image: host}\npypi_overrides: {packages: [{name: a, wheel_from_git: {repo: 'https://g.example/o/r'}}]}\n",
            "is not a local working tree",
        ),
    ],
)
def test_nothing_is_dropped_in_silence(refused: Any, text: str, words: str) -> None:
    """What the published tool ignored is an error."""
    assert words in refused(text).message


def test_an_unused_variable_is_refused(refused: Any) -> None:
    """A variable that the file does not mention is an error with a suggestion."""
    error = refused("base: {image: '${IMAGE}'}\n", IMAGE="host", IMAG="host")
    assert "did you mean 'IMAGE'?" in error.message


def test_a_folder_can_be_built_without_a_rule(loaded: Any, folder: Path) -> None:
    """A wheel can come from a working tree that answers for no public address."""
    profile = loaded(
        "base: {image: host}\npypi_overrides: {packages: [{name: a, wheel_from_git: {repo: tree}}]}\n"
    ).profile
    assert [(item.path, item.url) for item in profile.repositories] == [(folder / "tree", "https://local.invalid/tree")]
    assert profile.packages[0].wheel_from_git.repo == "https://local.invalid/tree"
