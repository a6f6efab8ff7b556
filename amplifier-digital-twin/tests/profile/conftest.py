"""Profiles for the tests: one that uses every key, and ways to write and load one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.load import Loaded, load

Load = Callable[..., Loaded]
Refuse = Callable[..., TwinError]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make what profiles refer to: a working tree, a wheel, a file."""
    place = tmp_path / "a place with ünïcode"
    (place / "tree").mkdir(parents=True)
    (place / "core-1.0-py3-none-any.whl").write_bytes(b"wheel")
    (place / "base.tar").write_bytes(b"tar")
    (place / "file.txt").write_text("content", encoding="utf-8")
    return place


@pytest.fixture
def write(folder: Path) -> Callable[[str | Mapping[Any, Any]], Path]:
    """Return a function that writes a profile, given as YAML or as data."""

    def writer(profile: str | Mapping[Any, Any]) -> Path:
        path = folder / "profile.yaml"
        content = profile if isinstance(profile, str) else json.dumps(profile, indent=1)
        path.write_text(content, encoding="utf-8")
        return path

    return writer


@pytest.fixture
def loaded(write: Callable[[Any], Path]) -> Load:
    """Return a function that writes and loads a profile."""

    def loader(profile: Any, **variables: str) -> Loaded:
        return load(str(write(profile)), variables)

    return loader


@pytest.fixture
def refused(loaded: Load) -> Refuse:
    """Return a function that loads a profile which must be refused, and gives back why."""

    def refuser(profile: Any, **variables: str) -> TwinError:
        with pytest.raises(TwinError) as caught:
            loaded(profile, **variables)
        assert caught.value.code == "profile_invalid"
        return caught.value

    return refuser


@pytest.fixture
def full() -> dict[str, Any]:
    """Return a profile in which every key of version 1 is used."""
    return {
        "dtu": 1,
        "name": "full",
        "description": "every key",
        "backend": "podman",
        "require": ["seccomp"],
        "isolation": "best-effort",
        "base": {"image": "debian:12", "packages": ["git"], "tools": ["uv"]},
        "user": {"name": "somebody", "uid": 1001},
        "limits": {"memory": "2g", "pids": 512, "cpus": 1.5, "disk": "4g", "wall": "20m"},
        "vars": {"CORE": {"type": "string", "default": "main", "description": "a branch"}},
        "secrets": [{"env": "API_KEY", "optional": True}],
        "environment": {"COLOUR": "teal"},
        "network": {"mode": "gateway", "allow": ["@package-index", "@apt", "example.com", "example.org:8443"]},
        "repositories": [{"path": "tree", "url": "https://github.com/owner/core", "ref": "${CORE}"}],
        "rewrites": [{"match": "api.example.com/v1", "target": "mock:example"}],
        "packages": [
            {"name": "core", "wheel_path": "core-1.0-py3-none-any.whl"},
            {
                "name": "other",
                "wheel_from_git": {"repo": "core", "ref": "main", "build": "b", "glob": "*.whl", "subdirectory": "sub"},
            },
        ],
        "uv": {"github_fast_path": False, "lock": "refuse"},
        "mocks": [{"name": "example", "run": "python mock.py", "port": 3000, "domains": ["api.example.com"]}],
        "provision": {
            "files": [
                {
                    "src": "file.txt",
                    "dest": "~/file.txt",
                    "recursive": False,
                    "create_dirs": True,
                    "mode": "0600",
                    "uid": 1,
                    "gid": 2,
                }
            ],
            "commands": [{"run": "true", "timeout": "5m", "user": "root"}],
        },
        "update": {"commands": [{"run": "true"}], "refresh_packages": True},
        "readiness": [
            {
                "name": "web",
                "http": {
                    "url": "http://localhost:1/",
                    "expect_json": {"a": 1},
                    "expect_status": 200,
                    "expect_text": "t",
                },
                "timeout": 10,
                "interval": "500ms",
                "retries": 3,
            },
            {"name": "port", "tcp": {"port": 80}},
            {"name": "command", "command": "true"},
        ],
        "access": {"hostname": "twin", "ports": [{"host": 0, "container": 80, "label": "web", "path": "/x"}]},
        "checks": [
            {
                "name": "one",
                "run": "true",
                "user": "somebody",
                "timeout": "1m",
                "expect": {
                    "exit": 3,
                    "stdout": "a",
                    "stderr": "b",
                    "stdout_json": {"a": 1},
                    "files": [
                        {
                            "path": "~/x",
                            "exists": True,
                            "contains": "a",
                            "matches": "^a",
                            "sha256": "a" * 64,
                            "mode": "0644",
                        }
                    ],
                    "jsonl": {
                        "glob": "~/**/x.jsonl",
                        "has": ["a"],
                        "in_order": True,
                        "lacks": ["b"],
                        "key": "event",
                        "files": "all",
                    },
                    "refused": ["unlisted.example"],
                },
            },
            {"name": "two", "http": {"url": "http://localhost:1/"}},
            {
                "name": "three",
                "screenshot": {
                    "url": "http://localhost:1",
                    "file": "a.png",
                    "width": 99,
                    "height": 99,
                    "expect_text": "a",
                },
            },
            {"name": "four", "provenance": ["core"]},
        ],
        "artifacts": ["~/logs"],
        "on_failure": "keep",
    }
