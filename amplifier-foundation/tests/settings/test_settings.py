"""Loading and merging the settings of all scopes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.merge import SETTINGS, merge_all
from amplifier_foundation.paths import Home
from amplifier_foundation.settings.scopes import SCOPES, SettingsError, scope_file
from amplifier_foundation.settings.settings import Settings


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_without_files_there_are_no_settings(home: Home, project: Path) -> None:
    """A missing file is not an error, and reading creates nothing."""
    settings = Settings.load(home, project, project / "session")
    assert (settings.data, settings.documents, settings.warnings) == ({}, (), ())
    assert settings.get("bundle.active") is None
    assert settings.get("bundle.active", "default") == "default"
    assert not home.path.exists()


def test_without_files_no_yaml_library_is_loaded(home: Home, project: Path) -> None:
    """Starting without settings does not pay for reading them; an empty file costs as little."""
    write(home.settings, " \n")
    code = (
        "import sys; from pathlib import Path; from amplifier_foundation.paths import Home\n"
        "from amplifier_foundation.settings.keys import KeyStore\n"
        "from amplifier_foundation.settings.settings import Settings\n"
        "home = Home(Path(sys.argv[1])); Settings.load(home, Path(sys.argv[2])); KeyStore(home, {}).load()\n"
        "print([name for name in ('yaml', 'keyring', 'difflib', 'asyncio') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(home.path), str(project)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_later_scopes_win(home: Home, project: Path, tmp_path: Path) -> None:
    """User < project < local < session < what the program is given for this run."""
    for scope in SCOPES:
        text = f"bundle: {{active: {scope}, added: {{{scope}: uri}}}}"
        write(scope_file(scope, home, project, tmp_path / "session"), text)
    assert Settings.load(home).get("bundle.active") == "user"
    assert Settings.load(home, project).get("bundle.active") == "local"
    settings = Settings.load(home, project, tmp_path / "session")
    assert settings.get("bundle.active") == "session"
    assert list(settings.get("bundle.added")) == list(SCOPES)
    assert [scope for scope, _ in settings.documents] == list(SCOPES)
    given = Settings.load(home, project, tmp_path / "session", extra={"bundle": {"active": "flag"}})
    assert given.get("bundle.active") == "flag"


def test_providers_are_merged_by_id_else_module(home: Home, project: Path) -> None:
    """An entry of a stronger scope changes that of a weaker one, and others stay; `id` alone is enough to refer."""
    write(
        home.settings,
        "config: {providers: [{module: provider-a, config: {x: 1, y: 1}}, {module: provider-a, id: two}]}",
    )
    write(
        scope_file("project", home, project),
        "config: {providers: [{id: two, config: {z: 3}}, {module: provider-a, config: {y: 2}}]}",
    )
    settings = Settings.load(home, project)
    assert settings.get("config.providers") == [
        {"module": "provider-a", "config": {"x": 1, "y": 2}},
        {"module": "provider-a", "id": "two", "config": {"z": 3}},
    ]
    assert settings.get("config.providers.two.config.z") == 3
    assert settings.get(("config", "providers", "nobody")) is None


def test_path_lists_of_the_file_tool_are_united_and_others_replaced(home: Home, project: Path) -> None:
    """A project cannot take back a path that the user denied by giving another list."""
    tool = "modules: {{tools: [{{module: tool-filesystem, config: {{denied_write_paths: [{0}], other: [{0}]}}}}]}}"
    write(home.settings, tool.format("/a"))
    write(scope_file("project", home, project), tool.format("/b"))
    config = Settings.load(home, project).get("modules.tools.tool-filesystem.config")
    assert config == {"denied_write_paths": ["/a", "/b"], "other": ["/b"]}


def test_a_section_with_everything_commented_out_takes_nothing_away(home: Home, project: Path) -> None:
    """An empty section of a stronger scope is ignored; an empty `active` says that no bundle is active."""
    write(
        home.settings,
        "bundle: {active: mine, app: [a]}\noverrides: {m: {config: {x: 1}}}\n"
        "config: {providers: [{module: p, config: {x: 1}}]}\n",
    )
    local = scope_file("local", home, project)
    write(
        local,
        "bundle:\n  # active: x\n  app:\nconfig:\n  providers:\n    - module: p\n      config:\noverrides:\n  m:\n",
    )
    assert Settings.load(home, project).data == Settings.load(home).data
    write(local, "bundle:\n  active:\n")
    assert Settings.load(home, project).get("bundle.active", "none") == "none"


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_byte_order_marks_line_ends_and_unicode_are_fine(content: bytes, ends: str, home: Home) -> None:
    """A file that was saved by an editor of another system reads the same, with the same lines in errors."""
    text = ends.join(("# größe", "bundle:", "  active: bündel 🎉", "  aktive: x", ""))
    write(home.settings, content + text.encode())
    with pytest.raises(SettingsError, match=r"settings\.yaml:4: unknown key 'aktive' in bundle.*'active'"):
        Settings.load(home)
    write(home.settings, content + text.replace("  aktive: x", "").encode())
    assert Settings.load(home).get("bundle.active") == "bündel 🎉"


def test_a_home_that_is_a_project_too_is_read_once(home: Home) -> None:
    """In the user's own folder the user's settings are the user's, not a project's that would need trust."""
    write(home.settings, "bundle: {active: mine}")
    settings = Settings.load(home, home.path.parent)
    assert [scope for scope, _ in settings.documents] == ["user"]
    link = home.path.parent / "link"
    link.symlink_to(home.path.parent)
    assert [scope for scope, _ in Settings.load(home, link).documents] == ["user"]


def test_a_project_without_a_settings_folder_is_fine(home: Home, project: Path) -> None:
    """A file called .amplifier in a project is not ours, and no reason to stop."""
    write(project / ".amplifier", "something")
    assert Settings.load(home, project).data == {}


def test_a_folder_in_place_of_the_file_is_reported(home: Home) -> None:
    """What stands where settings should, and cannot be read, is never taken for no settings."""
    home.settings.mkdir(parents=True)
    with pytest.raises(SettingsError, match=r"settings\.yaml: cannot be read: Is a directory"):
        Settings.load(home)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_reported(home: Home) -> None:
    """Unreadable settings are not skipped silently."""
    write(home.settings, "bundle: {active: x}").chmod(0)
    with pytest.raises(SettingsError, match="cannot be read: Permission denied"):
        Settings.load(home)


def test_an_entry_without_a_module_in_any_scope_is_an_error(home: Home, project: Path) -> None:
    """`id` alone refers to an entry of another scope; when it is missing, the line is named."""
    path = write(scope_file("local", home, project), "config:\n  providers:\n    - id: ghost\n")
    with pytest.raises(SettingsError, match=r"local\.yaml:3: `config\.providers\.ghost` names no module") as caught:
        Settings.load(home, project)
    assert str(caught.value).startswith(str(path))


def test_what_is_got_is_a_copy(home: Home) -> None:
    """Changing what was asked for does not change the settings."""
    write(home.settings, "bundle: {app: [a]}")
    settings = Settings.load(home)
    settings.get("bundle.app").append("b")
    assert settings.get("bundle.app") == ["a"]


def test_variables_stay_until_they_are_asked_for(home: Home) -> None:
    """Merged settings hold variables as written; `expanded` puts them in place and reports those not set."""
    write(home.settings, "bundle: {active: '${NAME}', added: {x: '${NO}'}}")
    settings = Settings.load(home)
    assert settings.get("bundle.active") == "${NAME}"
    expanded = settings.expanded({"NAME": "mine"})
    assert expanded.value["bundle"] == {"active": "mine", "added": {"x": ""}}
    assert [tuple(missing) for missing in expanded.missing] == [("NO", "bundle.added.x")]


def test_no_value_is_in_the_repr(home: Home) -> None:
    """Settings that are logged by accident show no secret."""
    write(home.settings, "overrides: {m: {config: {api_key: hunter2-hunter2}}}")
    assert "hunter2" not in repr(Settings.load(home, extra={"overrides": {"n": {"config": {"token": "hunter2"}}}}))


NAMES = st.sampled_from(["a", "b"])
SCOPE = st.fixed_dictionaries(
    {},
    optional={
        "bundle": st.fixed_dictionaries({}, optional={"active": NAMES, "app": st.lists(NAMES, max_size=2)}),
        "overrides": st.dictionaries(
            NAMES, st.fixed_dictionaries({}, optional={"source": NAMES, "config": st.dictionaries(NAMES, NAMES)})
        ),
        "config": st.fixed_dictionaries(
            {}, optional={"providers": st.lists(st.fixed_dictionaries({"module": NAMES}), max_size=2)}
        ),
    },
)


@given(st.lists(SCOPE, min_size=4, max_size=4))
def test_what_is_loaded_is_all_scopes_merged(tmp_path_factory: pytest.TempPathFactory, scopes: list[dict]) -> None:  # type: ignore[type-arg]
    """Loading does no more and no less than the one merge of settings, file by file."""
    folder = tmp_path_factory.mktemp("scopes")
    home, project, session = Home(folder / "home"), folder / "project", folder / "session"
    for scope, data in zip(SCOPES, scopes, strict=True):
        write(scope_file(scope, home, project, session), yaml.safe_dump(data))
    assert Settings.load(home, project, session).data == merge_all(scopes, SETTINGS)
