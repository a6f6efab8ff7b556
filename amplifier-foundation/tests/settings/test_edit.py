"""Changing settings files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.edit import Edit, append_value, remove_item, set_value, unset_value
from amplifier_foundation.settings.keys import KeyStore
from amplifier_foundation.settings.scopes import SettingsError, scope_file
from amplifier_foundation.settings.settings import Settings


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_file_is_made_for_its_owner(home: Home, project: Path, keys: KeyStore) -> None:
    """The first setting of a scope makes folder and file, which only the owner may read."""
    for scope in ("user", "local"):
        path = scope_file(scope, home, project)
        assert set_value(path, "bundle.active", "mine", keys) == Edit(path, changed=True)
        assert path.read_text(encoding="utf-8") == "bundle:\n  active: mine\n"
        assert path.stat().st_mode & 0o777 == 0o600
    assert Settings.load(home, project).get("bundle.active") == "mine"


def test_comments_survive_an_edit(home: Home, keys: KeyStore) -> None:
    """Set, append, remove and unset leave every comment of other lines, and the order, as they were."""
    text = (
        "# mine\nbundle:\n  # why\n  active: a  # best\n  app: [x]\n\n# then\nconfig:\n  providers:\n"
        "    # one\n    - module: p  # p\n# end\n"
    )
    write(home.settings, text)
    set_value(home.settings, "bundle.active", "b", keys)
    append_value(home.settings, "bundle.app", "y", keys)
    set_value(home.settings, "config.providers.q.config.priority", 1, keys)
    set_value(home.settings, "overrides.m.source", "./m", keys)
    assert home.settings.read_text(encoding="utf-8") == (
        "# mine\nbundle:\n  # why\n  active: b  # best\n  app: [x, y]\n\n# then\nconfig:\n  providers:\n"
        "    # one\n    - module: p  # p\n    - module: q\n      config:\n        priority: 1\n"
        "overrides:\n  m:\n    source: ./m\n# end\n"
    )
    unset_value(home.settings, "overrides.m.source", keys)
    unset_value(home.settings, "config.providers.q", keys)
    remove_item(home.settings, "bundle.app", "y", keys)
    set_value(home.settings, "bundle.active", "a", keys)
    assert home.settings.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_mark_and_line_ends_stay(home: Home, keys: KeyStore, mark: bytes, end: bytes) -> None:
    """A file that was saved by an editor of another system stays one."""
    write(home.settings, mark + b"# gr\xc3\xbcn" + end + b"bundle:" + end + b"  active: a" + end)
    set_value(home.settings, "bundle.app", ["ü"], keys)
    expected = [b"# gr\xc3\xbcn", b"bundle:", b"  active: a", b"  app:", b"    - \xc3\xbc", b""]
    assert home.settings.read_bytes() == mark + end.join(expected)


def test_the_mode_of_a_file_is_kept(home: Home, keys: KeyStore) -> None:
    """A shared file stays shared, whatever the umask says."""
    write(home.settings, "bundle: {active: a}").chmod(0o664)
    before = os.umask(0o077)
    try:
        set_value(home.settings, "bundle.active", "b", keys)
    finally:
        os.umask(before)
    assert home.settings.stat().st_mode & 0o777 == 0o664


def test_a_link_stays_a_link(home: Home, keys: KeyStore, tmp_path: Path) -> None:
    """Who keeps settings elsewhere finds the change there."""
    real = write(tmp_path / "dotfiles" / "settings.yaml", "bundle: {active: a}\n")
    home.path.mkdir(parents=True)
    home.settings.symlink_to(real)
    set_value(home.settings, "bundle.active", "b", keys)
    assert home.settings.is_symlink()
    assert real.read_text(encoding="utf-8") == "bundle: {active: b}\n"


def test_what_is_there_already_is_not_written_again(home: Home, keys: KeyStore) -> None:
    """An edit that changes nothing says so and leaves the file as it is, down to its time."""
    write(home.settings, "bundle:\n  active: a\n  app:\n    - x\n")
    before = home.settings.stat()
    assert set_value(home.settings, "bundle.active", "a", keys).changed is False
    assert append_value(home.settings, "bundle.app", "x", keys).changed is False
    assert unset_value(home.settings, "bundle.added.x", keys).changed is False
    assert unset_value(home.settings, "config.providers.ghost.config", keys).changed is False
    assert remove_item(home.settings, "bundle.app", "ghost", keys).changed is False
    assert (home.settings.stat().st_ino, home.settings.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_removing_from_a_file_that_is_not_there_makes_none(home: Home, keys: KeyStore) -> None:
    """Nothing is made in order to take something out of it."""
    assert unset_value(home.settings, "bundle.active", keys) == Edit(home.settings, changed=False)
    assert remove_item(home.settings, "bundle.app", "x", keys) == Edit(home.settings, changed=False)
    assert not home.path.exists()


def test_modules_go_by_their_names(home: Home, keys: KeyStore) -> None:
    """An entry of a module list is found by `id`, else `module`, and added when it is missing."""
    write(home.settings, "config:\n  providers:\n    - {module: p, id: one}\n    - module: p\n")
    set_value(home.settings, "config.providers.one.config.x", 1, keys)
    set_value(home.settings, "config.providers.p.config.x", 2, keys)
    append_value(home.settings, "modules.tools.tool-filesystem.config.allowed_write_paths", "/a b", keys)
    append_value(home.settings, "modules.tools.tool-filesystem.config.allowed_write_paths", "/c", keys)
    set_value(home.settings, "config.providers.whole", {"module": "p", "id": "whole"}, keys)
    assert Settings.load(home).data == {
        "config": {
            "providers": [
                {"module": "p", "id": "one", "config": {"x": 1}},
                {"module": "p", "config": {"x": 2}},
                {"module": "p", "id": "whole"},
            ]
        },
        "modules": {"tools": [{"module": "tool-filesystem", "config": {"allowed_write_paths": ["/a b", "/c"]}}]},
    }


def test_names_with_dots_are_given_in_parts(home: Home, keys: KeyStore) -> None:
    """A bundle whose name has a dot in it can be set and unset."""
    set_value(home.settings, ("bundle", "added", "my.bundle"), "uri", keys)
    assert Settings.load(home).get(("bundle", "added", "my.bundle")) == "uri"
    assert unset_value(home.settings, ("bundle", "added", "my.bundle"), keys).changed is True


def test_a_value_is_not_replaced_by_a_mapping(home: Home, keys: KeyStore) -> None:
    """A key below one that has a plain value in the file is an error, and the value stays."""
    write(home.settings, "overrides: {m: {config: {a: 1}}}\n")
    with pytest.raises(SettingsError, match="not a mapping"):
        set_value(home.settings, ("overrides", "m", "config", "a", "b"), 2, keys)
    assert home.settings.read_text(encoding="utf-8") == "overrides: {m: {config: {a: 1}}}\n"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("bundel.active", "x", "did you mean 'bundle'"),
        ("bundle.active", 3, "'bundle.active' must be text, got a number"),
        ("bundle.active", object(), "cannot be set to a object"),
        ("bundle.app", ["a", {1: 2}], "cannot be set to a dict"),
        ("bundle.active.more", "x", "must be text, got a mapping"),
        ("", "x", "invalid settings key"),
        ("bundle..active", "x", "invalid settings key"),
    ],
)
def test_what_settings_cannot_say_is_not_written(
    home: Home, keys: KeyStore, key: str, value: Any, expected: str
) -> None:
    """A wrong key or value is an error and the file is as it was."""
    write(home.settings, "bundle:\n  active: a\n")
    with pytest.raises(SettingsError) as caught:
        set_value(home.settings, key, value, keys)
    assert expected in str(caught.value)
    assert home.settings.read_text(encoding="utf-8") == "bundle:\n  active: a\n"


def test_only_lists_are_appended_to(home: Home, keys: KeyStore) -> None:
    """A text is not turned into a list."""
    write(home.settings, "bundle: {active: a}\n")
    with pytest.raises(SettingsError, match=r"`bundle\.active` is not a list"):
        append_value(home.settings, "bundle.active", "b", keys)


@pytest.mark.parametrize("content", [b"bundle: [", b"bundle: \xff", b"- a", b"bundel: {}"])
def test_a_broken_file_is_not_written_over(home: Home, keys: KeyStore, content: bytes) -> None:
    """What cannot be understood is reported, with its line, and left for its owner to repair."""
    write(home.settings, content)
    with pytest.raises(SettingsError, match=r"settings\.yaml:[12]: "):
        set_value(home.settings, "bundle.active", "x", keys)
    assert home.settings.read_bytes() == content


def test_what_cannot_be_changed_safely_is_left_to_its_owner(home: Home, keys: KeyStore) -> None:
    """A change that would change another setting too is not made."""
    text = "overrides:\n  m: &x\n    config:\n      a: 1\n  n: *x\n"
    write(home.settings, text)
    with pytest.raises(SettingsError, match=r"settings\.yaml:4: .*edit the file by hand"):
        set_value(home.settings, "overrides.n.config.a", 2, keys)
    assert home.settings.read_text(encoding="utf-8") == text


def test_a_home_that_cannot_be_written_to_is_a_clear_error(tmp_path: Path) -> None:
    """The error names the file and the reason and what to do; loading finds no settings."""
    write(tmp_path / "file", "")
    home = Home(tmp_path / "file" / "home")
    assert Settings.load(home).data == {}
    with pytest.raises(SettingsError, match=r"settings\.yaml: cannot be written: Not a directory: .*AMPLIFIER_HOME"):
        set_value(home.settings, "bundle.active", "x", KeyStore(home, {}))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home_is_a_clear_error(home: Home, keys: KeyStore) -> None:
    """The reason is said, and the old file is still there."""
    write(home.settings, "bundle: {active: a}")
    home.path.chmod(0o500)
    try:
        with pytest.raises(SettingsError, match="cannot be written: Permission denied"):
            set_value(home.settings, "bundle.active", "b", keys)
    finally:
        home.path.chmod(0o700)
    assert Settings.load(home).get("bundle.active") == "a"


NAMES = st.sampled_from(["a", "b", "c d", "yes", "ü"])
VALUES = st.sampled_from([1, True, None, "x", "no", "a: b", "two\nlines", ["x", 1], [], {}, {"k": {"l": ["m"]}}])
CHANGES = st.lists(st.tuples(st.booleans(), NAMES, NAMES, VALUES), max_size=6)


@given(CHANGES)
def test_edits_read_back(tmp_path_factory: pytest.TempPathFactory, changes: list[Any]) -> None:
    """Whatever is set and unset in turn, the file says what a mapping that was changed so would say."""
    home = Home(tmp_path_factory.mktemp("home"))
    keys = KeyStore(home, {})
    wanted: dict[str, Any] = {}
    for is_set, module, name, value in changes:
        key = ("overrides", module, "config", name)
        if is_set:
            set_value(home.settings, key, value, keys)
            wanted.setdefault(module, {})[name] = value
        else:
            unset_value(home.settings, key, keys)
            wanted.get(module, {}).pop(name, None)
    content = home.settings.read_text(encoding="utf-8") if home.settings.exists() else ""
    overrides = (yaml.safe_load(content) or {}).get("overrides") or {}
    found = {module: override["config"] for module, override in overrides.items()}
    assert found == {module: config for module, config in wanted.items() if config}
