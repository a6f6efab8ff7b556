"""Settings laid over the plan of a bundle."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.settings.plan import apply_settings, expand_plan
from amplifier_foundation.settings.variables import MissingVariable


def test_settings_that_say_nothing_change_nothing() -> None:
    """A plan comes back as it is, as a copy."""
    plan = {
        "session": {"orchestrator": "loop-basic", "context": {"module": "c"}, "budget": {"usd": 1}},
        "providers": [{"module": "provider-mock", "config": {"responses": ["x"]}}],
        "agents": {"a": {"instruction": "${X}", "tools": [{"module": "t"}]}},
    }
    before = copy.deepcopy(plan)
    changed = apply_settings(plan, {"bundle": {"active": "x"}, "routing": {"matrix": "m"}})
    assert changed == plan == before
    changed["session"]["budget"]["usd"] = 2
    assert plan == before


def test_providers_of_settings_are_merged_into_the_plan() -> None:
    """The same provider is configured, another one added, and the bundle's own stays."""
    plan = {"providers": [{"module": "provider-mock"}, {"module": "provider-a", "config": {"x": 1, "y": [1]}}]}
    settings = {
        "config": {
            "providers": [
                {"module": "provider-a", "config": {"y": [2], "z": 3}},
                {"module": "provider-a", "id": "second", "source": "./a"},
            ]
        }
    }
    assert apply_settings(plan, settings)["providers"] == [
        {"module": "provider-mock"},
        {"module": "provider-a", "config": {"x": 1, "y": [2], "z": 3}},
        {"module": "provider-a", "id": "second", "source": "./a", "instance_id": "second"},
    ]


def test_an_id_is_how_the_kernel_tells_providers_apart() -> None:
    """`id` is copied to `instance_id` for providers, in agents too; one that is given stays, and tools need none."""
    plan = {
        "providers": [{"module": "p", "id": "a"}, {"module": "p", "id": "b", "instance_id": "c"}, {"module": "p"}],
        "tools": [{"module": "t", "id": "d"}],
        "agents": {"x": {"providers": [{"module": "p", "id": "e"}]}},
    }
    changed = apply_settings(plan, {})
    assert [entry.get("instance_id") for entry in changed["providers"]] == ["a", "c", None]
    assert changed["agents"]["x"]["providers"][0]["instance_id"] == "e"
    assert changed["tools"] == [{"module": "t", "id": "d"}]


def test_modules_of_settings_are_added() -> None:
    """Tools, hooks and providers of settings join those of the bundle, also when it has none."""
    settings = {
        "modules": {
            "tools": [{"module": "tool-a", "config": {"x": 2}}, {"module": "tool-b"}],
            "hooks": [{"module": "hooks-c"}],
            "providers": [{"module": "provider-d"}],
        }
    }
    changed = apply_settings({"tools": [{"module": "tool-a", "config": {"x": 1, "y": 1}}]}, settings)
    assert changed == {
        "tools": [{"module": "tool-a", "config": {"x": 2, "y": 1}}, {"module": "tool-b"}],
        "hooks": [{"module": "hooks-c"}],
        "providers": [{"module": "provider-d"}],
    }


def test_overrides_reach_every_module_agents_included() -> None:
    """Source and config of a module are overridden wherever it stands; a module that is nowhere is not added."""
    plan = {
        "session": {"orchestrator": {"module": "m", "config": {"x": 1}}, "context": {"module": "n", "source": "old"}},
        "hooks": [{"module": "m"}],
        "agents": {"a": {"tools": [{"module": "m", "config": {"z": 1}}], "session": {"context": {"module": "n"}}}},
    }
    settings = {
        "overrides": {"m": {"config": {"x": 2}, "source": "new"}, "ghost": {"source": "g"}},
        "sources": {"modules": {"n": "from-sources", "ghost": "g"}},
    }
    assert apply_settings(plan, settings) == {
        "session": {
            "orchestrator": {"module": "m", "config": {"x": 2}, "source": "new"},
            "context": {"module": "n", "source": "from-sources"},
        },
        "hooks": [{"module": "m", "config": {"x": 2}, "source": "new"}],
        "agents": {
            "a": {
                "tools": [{"module": "m", "config": {"z": 1, "x": 2}, "source": "new"}],
                "session": {"context": {"module": "n", "source": "from-sources"}},
            }
        },
    }


def test_an_orchestrator_given_by_its_id_can_be_overridden() -> None:
    """It becomes an entry that keeps the source and the config that stood beside it."""
    plan = {
        "session": {"orchestrator": "m", "orchestrator_source": "old", "context": "n"},
        "orchestrator": {"config": {"x": 1, "y": 1}},
    }
    changed = apply_settings(plan, {"overrides": {"m": {"config": {"x": 2}}}})
    assert changed["session"] == {
        "orchestrator": {"module": "m", "source": "old", "config": {"x": 2, "y": 1}},
        "context": "n",
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"modules": {"tools": [{"module": "tool-filesystem", "config": {"denied_write_paths": ["/b"]}}]}},
        {"overrides": {"tool-filesystem": {"config": {"denied_write_paths": ["/b"]}}}},
    ],
)
def test_settings_never_take_a_denied_path_away(settings: dict[str, Any]) -> None:
    """Path lists of the file tool are joined with the bundle's, and the project may be written to."""
    plan = {"tools": [{"module": "tool-filesystem", "config": {"denied_write_paths": ["/a"]}}]}
    config = apply_settings(plan, settings)["tools"][0]["config"]
    assert config == {"denied_write_paths": ["/a", "/b"], "allowed_write_paths": ["."]}


def test_the_file_tool_may_write_in_the_project() -> None:
    """`.` is always among the paths, once; an agent that was given less keeps less, and other tools get nothing."""
    agent = {"tools": [{"module": "tool-filesystem", "config": {"allowed_write_paths": ["docs"]}}]}
    plan = {"tools": [{"module": "tool-filesystem"}, {"module": "tool-bash"}], "agents": {"a": agent}}
    changed = apply_settings(plan, {})
    assert changed["tools"] == [
        {"module": "tool-filesystem", "config": {"allowed_write_paths": ["."]}},
        {"module": "tool-bash"},
    ]
    assert changed["agents"] == {"a": agent}
    assert apply_settings(changed, {}) == changed


PLACES = ("bundle", "sources", "overrides", "modules", "providers")


@given(st.sets(st.sampled_from(PLACES)), st.sets(st.sampled_from(PLACES)))
def test_the_strongest_place_wins(sources: set[str], configs: set[str]) -> None:
    """For sources: bundle < sources.modules < overrides < modules < config.providers; for config the same."""
    configs -= {"sources"}

    def entry(place: str) -> dict[str, Any]:
        return {
            **({"source": place} if place in sources else {}),
            **({"config": {"by": place, place: 1}} if place in configs else {}),
        }

    settings = {
        "sources": {"modules": {"m": "sources"} if "sources" in sources else {}},
        "overrides": {"m": entry("overrides")},
        "modules": {"providers": [{"module": "m", **entry("modules")}]},
        "config": {"providers": [{"module": "m", **entry("providers")}]},
    }
    (found,) = apply_settings({"providers": [{"module": "m", **entry("bundle")}]}, settings)["providers"]
    assert found.get("source") == max(sources, key=PLACES.index, default=None)
    assert found.get("config", {}).get("by") == max(configs, key=PLACES.index, default=None)
    assert set(found.get("config", {})) - {"by"} == configs


ENTRIES = st.lists(
    st.fixed_dictionaries({"module": st.sampled_from("ab")}, optional={"id": st.sampled_from("cd")}), max_size=3
)


@given(ENTRIES, ENTRIES, ENTRIES)
def test_applying_twice_is_applying_once(
    bundle: list[dict[str, Any]], added: list[dict[str, Any]], given_: list[dict[str, Any]]
) -> None:
    """Settings say how things are, so saying it again changes nothing, and no module of either side is lost."""
    settings = {"modules": {"providers": added}, "config": {"providers": given_}}
    once = apply_settings({"providers": bundle}, settings)
    assert apply_settings(once, settings) == once
    names = {entry.get("id") or entry["module"] for entry in [*bundle, *added, *given_]}
    assert {entry.get("id") or entry["module"] for entry in once.get("providers", [])} == names


def test_variables_stay_in_an_applied_plan() -> None:
    """A plan that is recorded holds no secret."""
    settings = {"config": {"providers": [{"module": "p", "config": {"api_key": "${P_API_KEY}"}}]}}
    assert apply_settings({}, settings)["providers"][0]["config"]["api_key"] == "${P_API_KEY}"


def test_expanding_a_plan_leaves_texts_for_models_alone() -> None:
    """Config of modules, in agents too, gets variables; an instruction that names a key does not leak it to a model."""
    plan = {
        "session": {"orchestrator": {"module": "m", "config": {"x": "${KEY}"}}},
        "providers": [{"module": "p", "config": {"api_key": "${KEY}", "url": "${NO}"}}],
        "agents": {
            "a": {
                "instruction": "say ${KEY}",
                "description": "${KEY}",
                "meta": {"name": "${KEY}"},
                "tools": [{"module": "t", "config": {"x": "${KEY}", "y": "${NEITHER}"}}],
            },
            "all": "none",
        },
    }
    before = copy.deepcopy(plan)
    expanded = expand_plan(plan, {"KEY": "hunter2"})
    assert expanded.value["session"]["orchestrator"]["config"] == {"x": "hunter2"}
    assert expanded.value["providers"][0]["config"] == {"api_key": "hunter2", "url": ""}
    agent = expanded.value["agents"]["a"]
    assert agent["tools"][0]["config"] == {"x": "hunter2", "y": ""}
    assert (agent["instruction"], agent["description"], agent["meta"]) == ("say ${KEY}", "${KEY}", {"name": "${KEY}"})
    assert expanded.missing == [
        MissingVariable("NO", "providers.p.config.url"),
        MissingVariable("NEITHER", "agents.a.tools.t.config.y"),
    ]
    assert plan == before
