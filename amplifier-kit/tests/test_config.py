"""Config models: strict values, null as the default, clear errors, unknown keys with a suggestion."""

import logging
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, Strict

from amplifier_kit.config import (
    Config,
    ConfigError,
    ConfigKey,
    Count,
    PathText,
    Seconds,
    Texts,
    check_config,
    config_keys,
    config_model,
    config_schema,
    read_config,
    salvage_config,
)


class Entry(Config):
    """An entry of a list."""

    name: str


class Section(Config):
    """A section of keys."""

    depth: Count = 3
    mode: Literal["fast", "exact"] = "fast"


class Sample(Config):
    """A config with every kind of key."""

    tolerated_keys = frozenset({"priority"})

    timeout: Seconds = Field(30.0, description="Seconds for one call.")
    limit: Seconds | None = 60.0
    retries: Annotated[int, Field(ge=0)] = 2
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    verbose: bool = False
    working_dir: PathText | None = None
    names: Texts = ()
    by_tool: dict[str, Seconds] = Field(default_factory=dict)
    section: Section = Field(default_factory=Section.model_construct)
    entries: Annotated[tuple[Entry, ...], Strict(False)] = ()
    api_key: str = ""
    servers: dict[str, Any] = Field(default_factory=dict, repr=False)


def read(config: Any) -> Sample:
    """Return what a module reads from a config."""
    return read_config(Sample, config, module="tool-sample")


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"priority": 7},
        {"timeout": None, "names": None, "section": None, "priority": 7},
        {"section": {}},
        {"section": {"depth": None}},
        MappingProxyType({"section": MappingProxyType({"depth": 3})}),
    ],
)
def test_what_is_not_set_has_its_default(config: Any) -> None:
    """Absent keys, null and keys of other readers leave the defaults, in sections too."""
    assert read(config) == Sample()


def test_null_counts_where_the_type_includes_it() -> None:
    """null is a value for a key that accepts None."""
    assert read({"limit": None}).limit is None


def test_values_are_read() -> None:
    """Lists become tuples and whole numbers numbers; nothing can be changed afterwards."""
    settings = read({"timeout": 5, "names": ["a"], "section": {"mode": "exact"}, "entries": [{"name": "x"}]})
    assert (settings.timeout, settings.names, settings.section.mode) == (5.0, ("a",), "exact")
    assert settings.entries == (Entry(name="x"),)
    with pytest.raises(ValueError, match="frozen"):
        settings.timeout = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"timeout": "3"}, "config key 'timeout' must be a positive number of seconds, got '3'"),
        ({"timeout": True}, "config key 'timeout' must be a positive number of seconds, got True"),
        ({"timeout": float("inf")}, "config key 'timeout' must be a positive number of seconds, got inf"),
        ({"timeout": float("nan")}, "config key 'timeout' must be a positive number of seconds, got nan"),
        ({"limit": 0}, "config key 'limit' must be a positive number of seconds, or null, got 0"),
        ({"retries": -1}, "config key 'retries' must be a whole number of at least 0, got -1"),
        ({"retries": 2.0}, "config key 'retries' must be a whole number of at least 0, got 2.0"),
        ({"share": 2}, "config key 'share' must be a number from above 0 to 1, got 2"),
        ({"verbose": 1}, "config key 'verbose' must be true or false, got 1"),
        ({"working_dir": ""}, "config key 'working_dir' must be a path, or null, got ''"),
        ({"working_dir": "a\0b"}, "config key 'working_dir' must be a path, or null, got 'a\\x00b'"),
        ({"names": "a"}, "config key 'names' must be a list of texts that are not empty, got 'a'"),
        ({"names": ["a", " "]}, "config key 'names' must be a list of texts that are not empty, got ['a', ' ']"),
        ({"by_tool": {"bash": 0}}, "config key 'by_tool.bash' must be a positive number of seconds, got 0"),
        ({"section": 3}, "config key 'section' must be a mapping, got 3"),
        ({"section": {"mode": []}}, "config key 'section.mode' must be one of fast, exact, got []"),
        ({"entries": [{}]}, "config key 'entries.0.name' is missing: it must be text"),
        ({"api_key": ["s3cret"]}, "config key 'api_key' must be text, got [REDACTED]"),
        ({"servers": ["token=s3cret"]}, "config key 'servers' must be a mapping, got list"),
        ([1], "the config must be a mapping, got [1]"),
    ],
)
def test_a_wrong_value_is_named(config: Any, message: str) -> None:
    """The error says which key of which module, what was expected and what was given, but no secret."""
    with pytest.raises(ConfigError) as caught:
        read(config)
    assert str(caught.value) == f"tool-sample: {message}"


def test_every_wrong_value_is_named() -> None:
    """One error has a line for each wrong key."""
    with pytest.raises(ConfigError) as caught:
        read({"timeout": "soon", "verbose": "yes", "timout": 1})
    assert [problem.keys for problem in caught.value.problems] == [("timeout",), ("verbose",)]
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"timout": 3}, "unknown config key 'timout': did you mean 'timeout'?"),
        ({"section": {"dept": 3}}, "unknown config key 'section.dept': did you mean 'section.depth'?"),
        ({"section": {"colour": 3}}, "unknown config key 'section.colour': known keys are depth, mode"),
        ({7: 3}, "unknown config key '7': known keys are"),
    ],
)
def test_an_unknown_key_is_a_warning(config: Any, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """At mount an unknown key is ignored with a warning that suggests the key that was meant."""
    with caplog.at_level(logging.WARNING):
        assert read(config) == Sample()
    assert f"tool-sample: {text}" in caplog.text
    (problem,) = check_config(Sample, config)
    assert problem.is_unknown
    assert problem.text.startswith(text)


def test_a_guard_reads_what_it_can() -> None:
    """`salvage_config` gives wrong values their defaults, keeps the others, and returns what was wrong."""
    config = {"timeout": "x", "verbose": True, "section": {"depth": 0, "mode": "exact"}, "names": [1], "x": 1}
    settings, problems = salvage_config(Sample, config)
    assert settings == Sample(verbose=True, section=Section(mode="exact"))
    assert [problem.keys for problem in problems] == [
        ("timeout",),
        ("names",),
        ("section", "depth"),
        ("x",),
    ]
    settings, problems = salvage_config(Sample, "nonsense")
    assert (settings, len(problems)) == (Sample(), 1)


def test_tools_can_list_the_keys() -> None:
    """A model gives its keys with type, default and description, and a JSON schema."""
    keys = {key.key: key for key in config_keys(Sample)}
    assert keys["timeout"] == ConfigKey("timeout", "a positive number of seconds", 30.0, "Seconds for one call.")
    assert keys["section.mode"].expected == "one of fast, exact"
    assert (keys["section.depth"].default, keys["by_tool"].default) == (3, {})
    assert config_schema(Sample)["properties"]["timeout"]["description"] == "Seconds for one call."


def test_a_package_publishes_its_model_as_config() -> None:
    """Other attributes of that name are not taken for a model."""
    assert config_model(type("package", (), {"CONFIG": Sample})) is Sample
    assert config_model(type("package", (), {"CONFIG": {"a": 1}})) is None
    assert config_model(type("package", (), {})) is None
