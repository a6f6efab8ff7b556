"""What a session is made of: recorded as plain data, compared with what there is now."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.plan.composed import (
    Composed,
    RecordError,
    differences,
    masked_keys,
    with_secrets_of,
)
from amplifier_foundation.trust.check import ModuleUse, ValueUse

PLAN: dict[str, Any] = {
    "session": {"orchestrator": {"module": "loop-basic"}, "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"default_model": "small"}}],
    "tools": [{"module": "tool-a"}, {"module": "tool-b", "config": {"limit": 5}}],
}
COMPOSED = Composed(
    reference="mine",
    name="mine",
    version="1.0.0",
    uri="file:///b/mine.md",
    plan=PLAN,
    instruction="Be brief.",
    context={"mine:notes.md": "/b/notes.md"},
    namespaces={"mine": "/b"},
    modules=(ModuleUse("tools", "tool-a", "./modules/tool-a", "user", "user", False, "/b/mine.md:7"),),
    pins={"git+https://host/x@main": {"commit": "a" * 40, "sha256": "b" * 64}},
    lock="/b/bundle.lock",
    roots={"git+https://host/x@main": "/cache/x-0123"},
    values=(ValueUse("endpoint", "providers.p.config.base_url", "/b/mine.md:9"),),
)


def test_a_record_says_what_was_recorded() -> None:
    """What comes back from JSON is what went in."""
    again = Composed.from_record(json.loads(json.dumps(COMPOSED.to_record())), "record.json")
    assert again == COMPOSED
    assert differences(COMPOSED, again) == []


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({}, "another version"),
        ({"record": 2}, "record version 2"),
        ({"record": 1, "name": "x"}, "not a record"),
        ({**COMPOSED.to_record(), "modules": [{"nonsense": 1}]}, "not a record"),
        ({**COMPOSED.to_record(), "surprise": 1}, "not a record"),
        ({**COMPOSED.to_record(), "values": [{"kind": 1}]}, "not a record"),
        ({**COMPOSED.to_record(), "plan": []}, "'plan' is of the wrong kind"),
        ({**COMPOSED.to_record(), "context": None}, "'context' is of the wrong kind"),
        ({**COMPOSED.to_record(), "instruction": 5}, "'instruction' is of the wrong kind"),
        ({**COMPOSED.to_record(), "plan": {"a": {"$date": "never"}}}, "not a record"),
    ],
)
def test_a_record_that_is_none_is_refused(record: dict[str, object], told: str) -> None:
    """A record of another version, or one that lacks something, is an error that names the file."""
    with pytest.raises(RecordError, match=told) as caught:
        Composed.from_record(record, "the/record.json")
    assert str(caught.value).startswith("the/record.json: ")
    assert caught.value.code == "record_invalid"


def test_every_kind_of_difference_is_named() -> None:
    """Bundle, source, instruction, plan, lock and context: each has its line, with what was and what is."""
    plan = {
        "session": PLAN["session"],
        "providers": [{"module": "provider-mock", "config": {"default_model": "large"}}],
        "tools": [{"module": "tool-new"}, *PLAN["tools"][1:]],
    }
    now = replace(
        COMPOSED,
        version="2.0.0",
        uri="file:///c/mine.md",
        plan=plan,
        instruction="Be long.",
        context={},
        pins={"git+https://host/x@main": {"commit": "c" * 40, "sha256": "d" * 64}},
    )
    assert differences(COMPOSED, now) == [
        "bundle: mine 1.0.0 when the session was made, mine 2.0.0 now",
        "bundle source: file:///b/mine.md when the session was made, file:///c/mine.md now",
        "instruction: the system instruction has changed",
        "providers.provider-mock.config.default_model: 'small' when the session was made, 'large' now",
        "tools.tool-a.module: 'tool-a' when the session was made, not set now",
        "tools.tool-new.module: not set when the session was made, 'tool-new' now",
        "lock: git+https://host/x@main was aaaaaaaaaaaa, is cccccccccccc now",
        "context: mine:notes.md is gone",
    ]


def test_a_difference_shows_no_secret() -> None:
    """A key that changed is told, its values are not."""
    before, now = (
        replace(COMPOSED, plan={"providers": [{"module": "p", "config": {"api_key": key}}]})
        for key in ("sk-first-0123456789abcdef", "sk-second-0123456789abcdef")
    )
    [line] = differences(before, now)
    assert line.startswith("providers.p.config.api_key: ")
    assert "0123456789" not in line


def test_paths_of_the_product_move_with_it() -> None:
    """What lies below a folder that was moved lies below the new one; what only looks like it stays."""
    made = replace(
        COMPOSED,
        plan={"a": ["/old/place/x", "/old/placeholder", "see /old/place/x"]},
        context={"c": "/old/place/c.md"},
        namespaces={"amplifier": "/old/place"},
    )
    moved = made.moved("/old/place", "/new")
    assert moved.plan == {"a": ["/new/x", "/old/placeholder", "see /old/place/x"]}
    assert moved.context == {"c": "/new/c.md"}
    fetched = replace(COMPOSED, modules=(COMPOSED.modules[0]._replace(source="/cache/x-0123/modules/t"),))
    assert fetched.moved("/cache/x-0123", "/cache/x-4567").modules[0].source == "/cache/x-4567/modules/t"
    assert fetched.moved("/cache/x-0123", "/cache/x-4567").roots == {"git+https://host/x@main": "/cache/x-4567"}
    assert moved.namespaces == {"amplifier": "/new"}


def test_what_was_masked_is_taken_from_what_there_is() -> None:
    """Masked values come back from what there is now where the rest of the text is the same, and only there."""
    address = "git+https://me:TOKEN@host/x@main"
    now = replace(
        COMPOSED,
        plan={"p": {"key": "Bearer abc", "other": "Bearer abc", "list": ["k1", "k2"]}},
        instruction="Call 555-1234, always.",
        modules=(COMPOSED.modules[0]._replace(source=address),),
        pins={address: {"commit": "a" * 40, "sha256": "b" * 64}},
        roots={address: "/cache/x"},
    )
    masked = address.replace("TOKEN", "[REDACTED]")
    recorded = replace(
        now,
        plan={"p": {"key": "Bearer [REDACTED]", "other": "Basic [REDACTED]", "list": ["[REDACTED]", "k2"]}},
        instruction="Call [REDACTED:PII], always.",
        modules=(COMPOSED.modules[0]._replace(source=masked),),
        pins={masked: now.pins[address]},
        roots={masked: "/cache/x"},
    )
    back = with_secrets_of(recorded, now)
    assert back == replace(now, plan={"p": {"key": "Bearer abc", "other": "Basic [REDACTED]", "list": ["k1", "k2"]}})
    assert masked_keys(back) == ["p.other"]
    assert masked_keys(now) == []


def test_an_address_with_a_password_is_not_shown() -> None:
    """A difference of addresses does not print what is secret in them."""
    now = replace(COMPOSED, uri="git+https://me:ghp_0123456789abcdefghijABCDEFGHIJ012345@host/x@main")
    [line] = differences(COMPOSED, now)
    assert line.startswith("bundle source: ")
    assert "ghp_" not in line


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(min_size=1, max_size=5), _values, max_size=4))
def test_the_same_plan_has_no_differences(plan: dict[str, object]) -> None:
    """A plan that went through JSON and back differs in nothing from itself."""
    made = replace(COMPOSED, plan=plan)
    assert differences(made, Composed.from_record(json.loads(json.dumps(made.to_record())), "x")) == []
