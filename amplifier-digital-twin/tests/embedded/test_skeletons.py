"""The bare tree of a universe on the host's programs, and who has an account in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_digital_twin.embedded.accounts import account_nodes
from amplifier_digital_twin.embedded.skeleton import skeleton_key, skeleton_nodes
from amplifier_digital_twin.profile.model import User


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """An /etc with public files, and secrets beside and among them."""
    for name, text in {"shadow": "secret", "services": "ssh 22/tcp", "fonts/fonts.conf": "<x/>"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "fonts/closed.conf").write_text("secret", encoding="utf-8")
    (tmp_path / "fonts/closed.conf").chmod(0o640)
    (tmp_path / "alternatives").mkdir()
    (tmp_path / "alternatives/awk").symlink_to("/usr/bin/mawk")
    (tmp_path / "magic").symlink_to(tmp_path / "shadow")
    (tmp_path / "fonts/pipe").parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "fonts/pipe")
    return tmp_path


def test_only_public_files_are_copied(etc: Path) -> None:
    """Files of the list that everybody may read are copied; links stay links, and nothing else is there."""
    nodes = skeleton_nodes(etc)
    assert nodes["/etc/services"].content == b"ssh 22/tcp"
    assert nodes["/etc/fonts/fonts.conf"].content == b"<x/>"
    assert nodes["/etc/alternatives/awk"].target == "/usr/bin/mawk"
    assert nodes["/etc/magic"].content is None
    assert not {"/etc/shadow", "/etc/fonts/closed.conf", "/etc/fonts/pipe"} & set(nodes)
    assert not [path for path, node in nodes.items() if b"secret" in (node.content or b"")]


def test_the_key_changes_with_what_is_copied(etc: Path) -> None:
    """A changed file makes another tree, and a file that is not copied does not."""
    before = skeleton_key(etc)
    (etc / "shadow").write_text("another secret", encoding="utf-8")
    assert skeleton_key(etc) == before
    (etc / "services").write_text("changed", encoding="utf-8")
    assert skeleton_key(etc) != before


def test_a_user_joins_the_accounts_of_the_base(tmp_path: Path) -> None:
    """Accounts of the base stay, but for those of his name or number."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nold:x:1000:1000::/:/bin/sh\n", encoding="utf-8")
    (tmp_path / "etc/group").write_text("root:x:0:\nuser:x:50:\n", encoding="utf-8")
    nodes = account_nodes(User("user", 1000), tmp_path)
    assert nodes["/etc/passwd"].content == b"root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"
    assert nodes["/etc/group"].content == b"root:x:0:\nuser:x:1000:\n"
    assert (nodes["/home/user"].mode, nodes["/home/user"].uid) == (0o700, 1000)


def test_accounts_of_the_host_are_never_read_through_a_link(tmp_path: Path) -> None:
    """A base whose accounts are a link, which would lead to the host's files, is taken for one without."""
    secret = tmp_path / "secret"
    secret.write_text("secret:x:1:1::/:/bin/sh\n", encoding="utf-8")
    base = tmp_path / "base"
    (base / "etc").mkdir(parents=True)
    (base / "etc/passwd").symlink_to(secret)
    assert b"secret" not in (account_nodes(User(), base)["/etc/passwd"].content or b"")
    other = tmp_path / "other"
    other.mkdir()
    (other / "etc").symlink_to(base / "etc")
    assert b"secret" not in (account_nodes(User(), other)["/etc/passwd"].content or b"")


def test_root_as_the_user_has_one_account() -> None:
    """A profile whose user is root gets no second line for him."""
    nodes = account_nodes(User("root", 0), None)
    assert (nodes["/etc/passwd"].content or b"").count(b":0:0:") == 1
    assert "/root" in nodes
