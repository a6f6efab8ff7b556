"""Secrets do not go into settings files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.settings.edit import Moved, set_value, unset_value
from amplifier_foundation.settings.keys import KeyStore
from amplifier_foundation.settings.plan import expand_plan
from amplifier_foundation.settings.scopes import SettingsError
from amplifier_foundation.settings.settings import Settings

SECRET = "hunter2-hunter2"


def text_of(home: Home) -> str:
    return home.settings.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("config.providers.provider-anthropic.config.api_key", "ANTHROPIC_API_KEY"),
        ("config.providers.provider-azure-openai.config.api_key", "AZURE_OPENAI_API_KEY"),
        ("modules.tools.tool-web.config.token", "TOOL_WEB_TOKEN"),
        ("overrides.tool-mail.config.smtp.password", "TOOL_MAIL_PASSWORD"),
        ("overrides.x.config.credentials.key", "X_KEY"),
    ],
)
def test_a_secret_goes_to_the_key_store(home: Home, keys: KeyStore, key: str, variable: str) -> None:
    """The file gets a variable, named after module and field; the store has the value; the outcome says so."""
    edit = set_value(home.settings, key, SECRET, keys)
    assert edit.moved == (Moved(key, variable),)
    assert SECRET not in f"{text_of(home)} {edit!r}"
    assert Settings.load(home).get(key) == f"${{{variable}}}"
    assert keys.load() == {variable: SECRET}
    assert Settings.load(home).expanded(keys.load()).missing == []


def test_secrets_inside_of_a_value_go_too(home: Home, keys: KeyStore) -> None:
    """A whole provider can be given at once; two secrets of one name get two variables."""
    entry = {"module": "provider-x", "config": {"api_key": SECRET, "default_model": "m"}}
    set_value(home.settings, "config.providers.provider-x", entry, keys)
    set_value(home.settings, "config.providers.two", {**entry, "id": "two", "config": {"api_key": SECRET + "2"}}, keys)
    settings = Settings.load(home)
    assert settings.get("config.providers.provider-x.config") == {"api_key": "${X_API_KEY}", "default_model": "m"}
    assert settings.get("config.providers.two.config.api_key") == "${TWO_API_KEY}"
    plan = expand_plan({"providers": settings.get("config.providers")}, keys.load())
    assert [entry["config"]["api_key"] for entry in plan.value["providers"]] == [SECRET, SECRET + "2"]


def test_a_name_that_is_taken_is_not_taken_again(home: Home, keys: KeyStore) -> None:
    """Another key of the same name keeps its value."""
    keys.set("X_API_KEY", "another")
    edit = set_value(home.settings, "config.providers.provider-x.config.api_key", SECRET, keys)
    assert edit.moved[0].variable == "X_API_KEY_2"
    assert keys.load() == {"X_API_KEY": "another", "X_API_KEY_2": SECRET}


def test_secrets_that_stood_in_the_file_go_with_the_next_edit(home: Home, keys: KeyStore) -> None:
    """A literal key that was written by hand is moved when the file is written for any reason, and reported."""
    home.path.mkdir(parents=True)
    home.settings.write_text(
        f"config:\n  providers:\n    - module: provider-x  # mine\n      config:\n        api_key: {SECRET} # old\n",
        encoding="utf-8",
    )
    edit = set_value(home.settings, "bundle.active", "a", keys)
    assert edit.moved == (Moved("config.providers.provider-x.config.api_key", "X_API_KEY"),)
    assert "api_key: ${X_API_KEY} # old" in text_of(home)
    assert "# mine" in text_of(home)
    assert keys.load() == {"X_API_KEY": SECRET}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("api_key", "${X}"),
        ("api_key", "${X:}"),
        ("authorization", "Bearer ${X}"),
        ("auth", "managed_identity"),
        ("max_tokens", 4096),
        ("use_token", False),
        ("api_key", ""),
        ("default_model", "claude"),
        ("token", None),
    ],
)
def test_what_is_no_secret_stays(home: Home, keys: KeyStore, field: str, value: Any) -> None:
    """References, switches, counts and names of ways to log in are written as they are."""
    edit = set_value(home.settings, f"config.providers.p.config.{field}", value, keys)
    assert (edit.moved, keys.load()) == ((), {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bundle.added.x", "git+https://user:hunter2-hunter2@example.com/x"),
        ("config.providers.p.config.base_url", "https://user:hunter2-hunter2@example.com"),
        ("config.providers.p.config.api_key", "${X:hunter2-hunter2}"),
        ("config.providers.p.config.api_key", "${X}-hunter2-hunter2"),
        ("updates.token", "hunter2-hunter2"),
    ],
)
def test_a_secret_that_cannot_be_moved_is_refused(home: Home, keys: KeyStore, key: str, value: str) -> None:
    """Where no variable can stand for the whole text the edit is an error that shows no secret and says what to do."""
    with pytest.raises(SettingsError, match=r"would hold a secret in clear: keep it as a key") as caught:
        set_value(home.settings, key, value, keys)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert not home.settings.exists()


def test_an_old_secret_that_cannot_be_moved_does_not_block_other_edits(home: Home, keys: KeyStore) -> None:
    """What stood there before, in a place that is not ours, is left there."""
    home.path.mkdir(parents=True)
    home.settings.write_text(f"updates:\n  token: {SECRET}\n", encoding="utf-8")
    assert set_value(home.settings, "bundle.active", "a", keys).moved == ()
    assert unset_value(home.settings, "bundle.active", keys).changed is True


def test_a_key_of_a_known_form_is_a_secret_under_any_name(home: Home, keys: KeyStore) -> None:
    """A token that gives itself away is moved even from a field whose name says nothing."""
    token = "sk-ant-0123456789abcdefghij"
    edit = set_value(home.settings, "overrides.m.config.thing", token, keys)
    assert [moved.variable for moved in edit.moved] == ["M_THING"]
    assert token not in text_of(home)


def test_a_number_that_is_a_secret_is_moved(home: Home, keys: KeyStore) -> None:
    """A password of digits is a password."""
    set_value(home.settings, "overrides.m.config.password", 12345678, keys)
    assert keys.load() == {"M_PASSWORD": "12345678"}
    assert "12345678" not in text_of(home)


def test_no_file_but_the_key_file_ever_holds_the_secret(home: Home, project: Path, keys: KeyStore) -> None:
    """After all kinds of edits a search through everything that was written finds the secret in one place."""
    for path in (home.settings, project / ".amplifier" / "settings.yaml"):
        set_value(path, "config.providers.provider-x.config.api_key", SECRET, keys)
        set_value(path, "config.providers.provider-x.config.headers", [{"password": SECRET}], keys)
    holders = [
        path
        for folder in (home.path, project)
        for path in folder.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert holders == [home.keys]
