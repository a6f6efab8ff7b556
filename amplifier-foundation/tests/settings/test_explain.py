"""Which file set what, and what lost."""

from __future__ import annotations

from pathlib import Path

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.scopes import scope_file
from amplifier_foundation.settings.settings import LostValue, SettingOrigin, Settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def explained(settings: Settings) -> dict[str, SettingOrigin]:
    return {origin.key: origin for origin in settings.explain()}


def test_every_setting_has_its_line_and_what_lost(home: Home, project: Path) -> None:
    """The winner is named with file and line, and the losers behind it, the strongest first."""
    user = write(home.settings, "# mine\nbundle:\n  active: a\n  app: [x]\n")
    shared = write(scope_file("project", home, project), "bundle:\n  active: b\n")
    local = write(scope_file("local", home, project), "\n\nbundle:\n  active: c\n")
    origins = explained(Settings.load(home, project))
    assert list(origins) == ["bundle.active", "bundle.app"]
    assert origins["bundle.active"] == SettingOrigin(
        "bundle.active",
        "c",
        "local",
        f"{local}:4",
        (LostValue("b", "project", f"{shared}:2"), LostValue("a", "user", f"{user}:3")),
    )
    assert origins["bundle.app"] == SettingOrigin("bundle.app", ["x"], "user", f"{user}:4", ())


def test_modules_go_by_their_names(home: Home, project: Path) -> None:
    """The same provider in two files is one setting, wherever it stands in its list."""
    user = write(
        home.settings, "config:\n  providers:\n    - module: a\n    - module: b\n      config:\n        x: 1\n"
    )
    shared = write(
        scope_file("project", home, project), "config:\n  providers:\n    - module: b\n      config: {x: 2}\n"
    )
    origin = explained(Settings.load(home, project))["config.providers.b.config.x"]
    assert (origin.value, origin.where) == (2, f"{shared}:4")
    assert origin.lost == (LostValue(1, "user", f"{user}:6"),)


def test_what_is_replaced_by_something_of_another_kind_lost(home: Home, project: Path) -> None:
    """A mapping replaced by a text, or a text by a mapping, is shown among the losers."""
    write(home.settings, "overrides: {m: {config: {a: {b: 1}, c: text}}}")
    write(scope_file("project", home, project), "overrides: {m: {config: {a: text, c: {d: 2}}}}")
    origins = explained(Settings.load(home, project))
    assert [lost.value for lost in origins["overrides.m.config.a"].lost] == [1]
    assert [lost.value for lost in origins["overrides.m.config.c.d"].lost] == ["text"]


def test_no_scope_loses_in_a_united_list(home: Home, project: Path) -> None:
    """Path lists of the file tool are joined, so no file is overruled."""
    text = "modules: {{tools: [{{module: tool-filesystem, config: {{allowed_write_paths: [{0}]}}}}]}}"
    write(home.settings, text.format("/a"))
    write(scope_file("project", home, project), text.format("/b"))
    origin = explained(Settings.load(home, project))["modules.tools.tool-filesystem.config.allowed_write_paths"]
    assert (origin.value, origin.lost) == (["/a", "/b"], ())


def test_what_the_program_was_given_is_named_as_such(home: Home) -> None:
    """Settings of flags stand in no file."""
    write(home.settings, "bundle: {active: a}")
    origin = explained(Settings.load(home, extra={"bundle": {"active": "b"}}))["bundle.active"]
    assert (origin.value, origin.scope, origin.where) == ("b", "given", "given for this run")
    assert len(origin.lost) == 1


def test_secrets_in_clear_are_masked(home: Home, project: Path) -> None:
    """What wins and what loses is shown without secrets; references to variables are shown."""
    text = (
        "config:\n  providers:\n    - module: p\n      config:\n        api_key: hunter2-{0}\n        ref: ${{P_KEY}}\n"
        "        credentials: {{key: hunter2-{0}, user: me}}\n        extra: {{header: sk-ant-0123456789hunter2{0}}}\n"
        "        tokens: [hunter2-9]\n        password: [hunter2-8, hunter2-7]\n"
    )
    write(home.settings, text.format("a"))
    write(scope_file("project", home, project), text.format("b"))
    origins = explained(Settings.load(home, project))
    shown = repr(origins)
    assert "hunter2-a" not in shown
    assert "hunter2-b" not in shown
    assert "hunter2-8" not in shown
    assert "sk-ant" not in shown
    assert origins["config.providers.p.config.ref"].value == "${P_KEY}"
    assert origins["config.providers.p.config.credentials.user"].value == "me"
