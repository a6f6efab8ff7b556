"""What settings files may say."""

from __future__ import annotations

import re

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.scopes import SettingsError
from amplifier_foundation.settings.settings import Settings

SECRET = "sk-ant-0123456789abcdefghij"


def load(home: Home, text: str) -> Settings:
    home.path.mkdir(parents=True, exist_ok=True)
    home.settings.write_text(text, encoding="utf-8")
    return Settings.load(home)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("bundel: {}", 1, "unknown key 'bundel': did you mean 'bundle'?"),
        ("\nbundle:\n  actve: x", 3, "unknown key 'actve' in bundle: did you mean 'active'?"),
        ("bundle: [x]", 1, "'bundle' must be a mapping, got a list"),
        ("bundle:\n  active: 3", 2, "'bundle.active' must be text, got a number"),
        ("bundle:\n  active: ' '", 2, "'bundle.active' must be text, got empty text"),
        ("bundle:\n  app: uri", 2, "'bundle.app' must be a list, got text"),
        ("bundle:\n  app:\n    - a\n    - {b: c}", 4, "'bundle.app[1]' must be text, got a mapping"),
        ("bundle:\n  added:\n    x:\n", 3, "'bundle.added.x' must be text, got nothing"),
        ("bundle:\n  added:\n    yes: uri", 3, "the key True in 'bundle.added' must be text"),
        ("config:\n  provider: []", 2, "unknown key 'provider' in config: did you mean 'providers'?"),
        (
            "config:\n  providers:\n    - provider-a",
            3,
            "'config.providers[0]' must be a mapping with `module`, got text",
        ),
        ("config:\n  providers:\n    - {config: {}}", 3, "has neither `module` nor `id`"),
        ("config:\n  providers:\n    - module: a\n      confg: {}", 4, "did you mean 'config'?"),
        (
            "config:\n  providers:\n    - module: a\n      config: [1]",
            4,
            "'config.providers[0].config' must be a mapping",
        ),
        ("config:\n  providers: {module: a}", 2, "'config.providers' must be a list, got a mapping"),
        ("modules:\n  tool: []", 2, "did you mean 'tools'?"),
        ("modules:\n  tools:\n    - module: [x]", 3, "'modules.tools[0].module' must be text, got a list"),
        ("overrides:\n  m:\n    sorce: x", 3, "unknown key 'sorce' in overrides.m: did you mean 'source'?"),
        ("overrides:\n  m: x", 2, "'overrides.m' must be a mapping, got text"),
        ("sources:\n  module: {}", 2, "did you mean 'modules'?"),
        ("sources:\n  modules:\n    m: [x]", 3, "'sources.modules.m' must be text, got a list"),
        ("bundle: {active: a}\nbundle: {}", 2, "the key 'bundle' is given twice"),
        ("bundle:\n  active: [", 3, "malformed YAML"),
        ("- a\n- b", 1, "must be a mapping of keys, got list"),
    ],
)
def test_malformed_settings_are_never_ignored(home: Home, text: str, line: int, expected: str) -> None:
    """Whatever is wrong is an error that names file and line and says what was meant."""
    with pytest.raises(SettingsError) as caught:
        load(home, text)
    assert str(caught.value).startswith(f"{home.settings}:{line}: ")
    assert expected in str(caught.value)
    assert caught.value.code == "settings_invalid"


def test_what_is_not_utf8_is_reported_with_its_line(home: Home) -> None:
    """A file in another encoding is not guessed at."""
    home.path.mkdir(parents=True)
    home.settings.write_bytes(b"bundle:\n  active: caf\xe9\n")
    with pytest.raises(SettingsError, match=r"settings\.yaml:2: not UTF-8"):
        Settings.load(home)


def test_published_sections_that_are_not_used_are_kept(home: Home) -> None:
    """Settings that the published program wrote load as they are, whatever those sections hold."""
    text = """
        routing: {matrix: balanced, overrides: {fast: [x]}}
        configurator: [anything]
        updates: {check_frequency_hours: 4}
        config: {notifications: {ntfy: {enabled: true}}}
    """
    settings = load(home, text)
    assert settings.get("routing.matrix") == "balanced"
    assert settings.get("configurator") == ["anything"]
    assert settings.get("config.notifications.ntfy.enabled") is True
    assert settings.warnings == ()


def test_module_lists_without_a_use_are_warned_of(home: Home) -> None:
    """What is kept and does nothing is said, with file and line."""
    settings = load(home, "modules:\n  orchestrators:\n    - module: loop-x\n")
    assert settings.warnings == (
        f"{home.settings}:2: `modules.orchestrators` is kept but not used: name such modules in a bundle",
    )


def test_what_the_program_is_given_is_checked_too(home: Home) -> None:
    """Flags that make settings cannot make ones that no file could hold."""
    with pytest.raises(SettingsError, match=re.escape("given for this run: unknown key 'bundel'")):
        Settings.load(home, extra={"bundel": {}})


@pytest.mark.parametrize(
    "text",
    [
        f"bundle: {SECRET}",
        f"bundle: {{active: [{SECRET}]}}",
        f"config: {{providers: [{SECRET}]}}",
        f"config: {{providers: [{{module: a, config: {SECRET}}}]}}",
        f"overrides: {{m: {SECRET}}}",
        f"sources: {{modules: {{m: [{SECRET}]}}}}",
        f"bundle: {{active: {SECRET}\n x",
        SECRET,
    ],
)
def test_no_error_shows_a_value(home: Home, text: str) -> None:
    """A secret in the wrong place does not end up in a message."""
    with pytest.raises(SettingsError) as caught:
        load(home, text)
    assert "0123456789" not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"
