"""What is said about a profile, and when two of them provision the same."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile import model
from amplifier_digital_twin.profile.describe import describe, fingerprint


@pytest.fixture
def profile(loaded: Any, full: dict[str, Any]) -> model.Profile:
    """Load the profile with every key."""
    found: model.Profile = loaded(full).profile
    return found


def test_a_description_is_json(profile: model.Profile) -> None:
    """Nothing is lost or changed by a way through JSON."""
    described = describe(profile)
    assert json.loads(json.dumps(described)) == described
    assert described["repositories"][0]["name"] == "core"


def test_a_description_holds_no_value_of_a_secret(profile: model.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are names."""
    monkeypatch.setenv("API_KEY", "very-secret-value")
    assert "very-secret-value" not in json.dumps(describe(profile))
    assert describe(profile)["secrets"] == [{"env": "API_KEY", "optional": True}]


@pytest.mark.parametrize(
    "change",
    [
        {"base": model.Base("host")},
        {"user": model.User("else", 1002)},
        {"environment": (("COLOUR", "red"),)},
        {"uv": model.UvPolicy(True)},
        {"mocks": ()},
        {"network": model.Network("none")},
        {"repositories": ()},
        {"packages": ()},
        {"provision": model.Provision()},
        {"secrets": ()},
    ],
)
def test_what_influences_provisioning_changes_the_fingerprint(profile: model.Profile, change: dict[str, Any]) -> None:
    """A layer is not used for a profile that would have made another."""
    assert fingerprint(replace(profile, **change)) != fingerprint(profile)


@pytest.mark.parametrize(
    "change", [{"checks": ()}, {"limits": model.Limits(1)}, {"artifacts": ()}, {"name": "other"}, {"readiness": ()}]
)
def test_what_comes_after_provisioning_does_not(profile: model.Profile, change: dict[str, Any]) -> None:
    """A changed check does not cost a new installation."""
    assert fingerprint(replace(profile, **change)) == fingerprint(profile)


def test_contents_of_pushed_files_and_wheels_count(profile: model.Profile, folder: Path) -> None:
    """The same path with another content is another layer."""
    before = fingerprint(profile)
    (folder / "file.txt").write_text("changed", encoding="utf-8")
    after = fingerprint(profile)
    (folder / "core-1.0-py3-none-any.whl").write_bytes(b"changed")
    assert len({before, after, fingerprint(profile)}) == 3


def test_folders_count_with_names_permissions_and_links(profile: model.Profile, folder: Path) -> None:
    """Every change in a pushed folder is seen, and a link is not followed."""
    tree = folder / "tree"
    pushed = replace(profile, provision=model.Provision((model.PushedFile(tree, "/x", recursive=True),)))
    seen = [fingerprint(pushed)]
    (tree / "a").write_text("a", encoding="utf-8")
    seen.append(fingerprint(pushed))
    (tree / "a").chmod(0o700)
    seen.append(fingerprint(pushed))
    (tree / "a").rename(tree / "b")
    seen.append(fingerprint(pushed))
    os.symlink("nowhere", tree / "link")
    seen.append(fingerprint(pushed))
    (tree / "sub").mkdir()
    seen.append(fingerprint(pushed))
    assert len(set(seen)) == len(seen)


def test_what_a_launch_serves_counts(profile: model.Profile) -> None:
    """Another commit of the mirror is another layer; the same commit is not."""
    assert fingerprint(profile, {"core": "a"}) != fingerprint(profile, {"core": "b"})
    assert fingerprint(profile, {"core": "a"}) == fingerprint(profile, {"core": "a"})


def test_where_a_working_tree_lies_does_not_count(profile: model.Profile, tmp_path: Path) -> None:
    """Its commits do; they are given by the launch."""
    moved = replace(profile, repositories=(replace(profile.repositories[0], path=tmp_path),))
    assert fingerprint(moved) == fingerprint(profile)
