"""Copies without secrets."""

from __future__ import annotations

import copy
import json
import string
from collections import OrderedDict
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.redaction.field_names import ID_KEYS, PROTECTED_KEYS
from amplifier_kit.guard.redaction.prefilter import MASK, PII_MASK
from amplifier_kit.guard.redaction.redactor import Redactor, Scrubbed

LIVE = ["live-secret-value-1", 'quoted "secret" 2', "пароль-секрет", "98765432109"]
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6"

live_values = st.text(alphabet=string.ascii_letters + string.digits + "-_.!é", min_size=8, max_size=24).filter(
    lambda text: text not in MASK and text not in PII_MASK and text not in PROTECTED_KEYS
)
texts = st.text(max_size=12) | st.sampled_from([TOKEN, "password=hunter2a", "a@b.co", "https://u:p@h", *LIVE])
keys = st.text(max_size=8) | st.sampled_from(["api_key", "token", "name", "value", "id", "tool", "ts", "turn_id"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


def planted(secret: str) -> st.SearchStrategy[Any]:
    """Return data in which a secret stands somewhere: as a key, a value, or inside of one."""
    held = st.just(secret) | st.builds(lambda before, after: f"{before}{secret}{after}", texts, texts)
    free_keys = keys.filter(lambda key: key not in PROTECTED_KEYS and key != "id")
    return st.recursive(
        held,
        lambda inner: (
            st.builds(
                lambda before, it, after: [*before, it, *after], st.lists(values, max_size=2), inner, st.lists(values)
            )
            | st.builds(
                lambda rest, key, it: {**rest, key: it}, st.dictionaries(keys, values, max_size=2), free_keys, inner
            )
            | st.builds(lambda rest, key, it: {**rest, key: it}, st.dictionaries(keys, values, max_size=2), held, inner)
        ),
        max_leaves=3,
    )


def shape(value: Any) -> Any:
    """Return the structure of data: its containers, and one word for everything else."""
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    return [shape(item) for item in value] if isinstance(value, list) else "scalar"


@given(st.data())
def test_no_live_value_survives(data: st.DataObject) -> None:
    """A known secret is gone from the JSON of what was scrubbed, wherever it stood."""
    live = data.draw(live_values)
    value = data.draw(planted(live))
    clean = Redactor([live]).scrub(value).value
    for written in (json.dumps(clean), json.dumps(clean, ensure_ascii=False)):
        assert live not in written.replace(MASK, "").replace(PII_MASK, "") or live in json.dumps(_bare(clean))


def _bare(value: Any) -> Any:
    """Return the structure with empty texts: what is left of JSON without its texts."""
    if isinstance(value, dict):
        return {"": [_bare(item) for item in value.values()]}
    return [_bare(item) for item in value] if isinstance(value, list) else ""


@given(values)
def test_scrubbing_twice_is_scrubbing_once(value: Any) -> None:
    """Nothing is left to mask in what was scrubbed."""
    redactor = Redactor(LIVE)
    once = redactor.scrub(value).value
    again = redactor.scrub(once)
    assert again == Scrubbed(once, {})
    assert Redactor(LIVE).scrub(once).value == once


@given(values)
def test_the_structure_stays(value: Any) -> None:
    """Scrubbing changes texts and nothing else: no field or item comes or goes."""
    assert shape(Redactor(LIVE).scrub(value).value) == shape(value)


@given(values)
def test_the_original_stays(value: Any) -> None:
    """What runs is never touched: scrubbing makes copies."""
    before = copy.deepcopy(value)
    clean = Redactor(LIVE).scrub(value).value
    assert value == before
    if isinstance(value, (dict, list)):
        assert clean is not value


ids = st.text(st.characters(exclude_categories=["Z", "Cc", "Cs"]), min_size=1, max_size=40).filter(
    lambda text: not any(map(str.isspace, text))
)


@given(identity=ids | st.sampled_from([TOKEN, *[value for value in LIVE if " " not in value]]), depth=st.integers(0, 3))
def test_ids_stay(identity: str, depth: int) -> None:
    """An id is never masked, in any depth, even if it looks like a secret or is one: records are joined by it."""
    value: Any = dict.fromkeys(sorted(ID_KEYS), identity)
    for _ in range(depth):
        value = {"data": [value]}
    assert Redactor(LIVE).scrub(value) == Scrubbed(value, {})
    call = {"role": "assistant", "tool_calls": [{"id": identity, "tool": "x", "arguments": {}}]}
    assert Redactor(LIVE).scrub(call).value == call


@given(st.datetimes(), st.integers(0, 10**19), st.floats(0, 1e12))
def test_times_stay(moment: Any, number: int, seconds: float) -> None:
    """A time is never masked, as a text or as a number."""
    value = {"ts": moment.isoformat(), "timestamp": number, "created": seconds, "said": moment.isoformat() + "+00:00"}
    assert Redactor(["20260101"]).scrub(value) == Scrubbed(value, {})


def test_an_id_that_is_none_is_a_text() -> None:
    """Under the name of an id or time, anything of another form is scrubbed like all else."""
    value = {"message_id": f"the key is {TOKEN}", "timestamp": f"at {TOKEN}", "call_id": {"x": TOKEN}}
    clean = Redactor().scrub(value).value
    assert clean == {"message_id": f"the key is {MASK}", "timestamp": f"at {MASK}", "call_id": {"x": MASK}}


def test_secret_names_hide_their_values() -> None:
    """Whatever stands under a secret name is masked, leaf by leaf."""
    value = {
        "api_key": "x",
        "auth": {"user": "u", "session_id": "s-1", "ok": True},
        "tokens": 5,
        "creds": ["a", 1, None],
    }
    assert Redactor().scrub(value) == Scrubbed(
        {
            "api_key": MASK,
            "auth": {"user": MASK, "session_id": "s-1", "ok": True},
            "tokens": 5,
            "creds": [MASK, MASK, None],
        },
        {"key_name": 4},
    )


def test_counts_of_tokens_stay() -> None:
    """Numbers that only sound like secrets are facts of a request."""
    usage = {"max_tokens": 4096, "input_tokens": 12345678, "token": 7, "token_budget": 1.5, "cost_usd": "0.01"}
    assert Redactor().scrub(usage) == Scrubbed(usage, {})


def test_schemas_stay() -> None:
    """The description of a secret field is none: tool schemas stay readable."""
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string", "description": "your password"}, "token": {"$ref": "#/x"}},
        "required": ["password", "token"],
    }
    assert Redactor().scrub(schema) == Scrubbed(schema, {})


def test_references_stay() -> None:
    """A config that names a variable instead of holding the secret shows which."""
    assert Redactor().scrub({"api_key": "${OPENAI_API_KEY}"}).applied == {}


def test_pairs_of_name_and_value() -> None:
    """Headers and variables that are written as pairs are known by their names."""
    value = [
        {"name": "API_KEY", "value": "x1"},
        {"key": "password", "value": {"a": "x2"}},
        {"name": "PATH", "value": "/bin"},
        ["Authorization", "x3"],
        ["token", "x4"],
    ]
    assert Redactor().scrub(value).value == [
        {"name": "API_KEY", "value": MASK},
        {"key": "password", "value": {"a": MASK}},
        {"name": "PATH", "value": "/bin"},
        ["Authorization", MASK],
        ["token", "x4"],
    ]


def test_lists_of_arguments() -> None:
    """In the arguments of a program, what follows `--password` or `--token` is a secret; other options stay."""
    value = ["deploy", "--token", "abc123", "--password", "swordfish", "--auth", "basic", "--secret", "--verbose"]
    clean = ["deploy", "--token", MASK, "--password", MASK, "--auth", "basic", "--secret", "--verbose"]
    assert Redactor().scrub({"args": value}).value == {"args": clean}
    assert Redactor().scrub({"args": clean}) == Scrubbed({"args": clean}, {})
    assert Redactor().scrub(["--token", "password=hunter2a"]) == Scrubbed(["--token", MASK], {"key_name": 1})
    assert Redactor().scrub({"name": "token", "value": TOKEN}).applied == {"key_name": 1}


def test_keys_are_texts_too() -> None:
    """A secret that is a key is masked, and no two fields become one."""
    clean = Redactor([LIVE[0], "other-hidden-thing"]).scrub({LIVE[0]: 1, "other-hidden-thing": 2, 3: 4}).value
    assert clean == {MASK: 1, f"{MASK} 2": 2, 3: 4}
    assert Redactor([LIVE[0]]).scrub({f"{LIVE[0]}_password": "x"}).value == {f"{MASK}_password": MASK}


def test_numbers_can_be_secrets() -> None:
    """A number with the digits of a known secret is masked."""
    assert Redactor(["98765432109"]).scrub({"pin": 98765432109, "n": 5}).value == {"pin": MASK, "n": 5}


def test_foreign_objects_become_text() -> None:
    """What JSON has no word for is written as text, and that is scrubbed."""

    class Config:
        def __str__(self) -> str:
            return f"Config(token={TOKEN})"

    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no")

    value = [Config(), Mute(), Path("a/b"), Decimal("1.5"), TOKEN.encode(), {TOKEN}, (1, TOKEN)]
    clean = Redactor().scrub(value).value
    assert clean == [f"Config(token={MASK})", MASK, "a/b", "1.5", MASK, [MASK], [1, MASK]]


def test_other_mappings_are_mappings() -> None:
    """Mappings of any kind are walked through, and come out as dicts."""
    value = {"a": MappingProxyType({"token": "x"}), "b": OrderedDict(password="y")}
    assert Redactor().scrub(value).value == {"a": {"token": MASK}, "b": {"password": MASK}}


def test_what_refers_to_itself_ends() -> None:
    """A cycle and endless nesting are masked where they begin to repeat."""
    cycle: dict[str, Any] = {"password": "x"}
    cycle["self"] = [cycle, cycle]
    assert Redactor().scrub(cycle).value == {"password": MASK, "self": [MASK, MASK]}
    deep: Any = TOKEN
    for _ in range(300):
        deep = [deep]
    assert TOKEN not in str(Redactor().scrub(deep).value)


class Hostile(dict[str, Any]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        """Fail."""
        raise RuntimeError("unreadable")


def test_scrubbing_fails_closed() -> None:
    """A value that cannot be scrubbed is masked as a whole."""
    assert Redactor().scrub({"a": Hostile()}) == Scrubbed(MASK, {"scrub_failed": 1})
    assert Redactor().scrub_text("x") == "x"


def test_live_values_can_be_added() -> None:
    """A secret learned later is masked from then on, although the same text was clean before."""
    redactor = Redactor()
    value = {"said": "open sesame please", "open sesame please": 1}
    assert redactor.scrub(value).value == value
    redactor.add_live_values(["open sesame"])
    assert redactor.scrub(value).value == {"said": f"{MASK} please", f"{MASK} please": 1}


def test_the_allowlist_spares_names_and_patterns() -> None:
    """An allowed field is not masked by its name or its form, but a live secret is nowhere let through."""
    redactor = Redactor(LIVE, allowlist=["token", "note"])
    clean = redactor.scrub({"token": "next-page", "note": TOKEN, "api_key": "x", "x": {"token": LIVE[0]}}).value
    assert clean == {"token": "next-page", "note": TOKEN, "api_key": MASK, "x": {"token": MASK}}
    assert Redactor(allowlist=["token"]).scrub({"name": "token", "value": "v"}).value == {"name": "token", "value": "v"}


def test_rules_can_be_chosen() -> None:
    """Each rule works alone, and live secrets are masked under any."""
    value = {"password": "x", "a": TOKEN, "b": "jane@example.com", "c": LIVE[0]}
    secrets = Redactor(LIVE, rules=["secrets"]).scrub(value)
    assert secrets.value == {"password": MASK, "a": MASK, "b": "jane@example.com", "c": MASK}
    pii = Redactor(LIVE, rules=["pii-basic"]).scrub(value)
    assert pii.value == {"password": "x", "a": TOKEN, "b": PII_MASK, "c": MASK}


def test_an_unknown_rule_is_refused() -> None:
    """A rule that does nothing would be a leak."""
    with pytest.raises(ValueError, match=r"unknown redaction rules \['secret'\]; there are \['secrets', 'pii-basic'\]"):
        Redactor(rules=["secret"])


def test_masking_may_uncover_a_secret() -> None:
    """What only looks like a secret once the one before it is masked, is masked as well."""
    redactor = Redactor(["0123456789x"])
    glued = "0123456789x4111111111111111 x" + "0123456789x" + TOKEN
    clean = redactor.scrub_text(glued)
    assert clean == f"{MASK}{PII_MASK} x{MASK}{MASK}"
    assert redactor.scrub_text(clean) == clean


ORDINARY = [
    "The quick brown fox jumps over the lazy dog; see README.md, section 3.",
    "def authenticate(token: str, password: str) -> bool:\n    return token == TOKENS[0] and check(password)",
    "550e8400-e29b-41d4-a716-446655440000",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "commit 3d75307fe1a0c6f5b2a9d8e7c6b5a4f3e2d1c0b9 (HEAD -> main, origin/main)",
    "/usr/lib/python3.11/site-packages/amplifier_core/coordinator.py:123: error",
    "git@github.com:microsoft/amplifier.git",
    "2026-11-15T10:00:00.123456789+00:00 INFO 4242 127.0.0.1:8080",
    "grep -rn 'api_key' src/ --include=*.py | head -20",
    "0x7ffd5e8a9b10 1.7976931348623157e+308 [1, 2, 3]",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    """Prose, code, ids, hashes, commits, paths, remotes, times and commands are not masked."""
    assert Redactor(LIVE).scrub({"text": text, "again": [text]}) == Scrubbed({"text": text, "again": [text]}, {})


ADVERSARIAL = [
    "sk-",
    "token=",
    "password='a\\",
    "-eyJ",
    "://a:b@",
    "a@b.",
    "-----BEGIN PRIVATE KEY-----!",
    "--token=",
    "4",
]


@pytest.mark.parametrize("part", ADVERSARIAL)
def test_hostile_text_is_finished(part: str) -> None:
    """A text of a hundred thousand characters that is made to be slow is scrubbed all the same, and once for all."""
    text = part * (100_000 // len(part))
    redactor = Redactor(LIVE)
    clean = redactor.scrub_text(text)
    assert redactor.scrub_text(clean) == clean


def test_memory_stays_bounded() -> None:
    """What is remembered about keys and short texts does not grow without end."""
    redactor = Redactor()
    for number in range(20_000):
        redactor.scrub({f"key {number}": f"some text {number}"})
    assert len(redactor._kinds) <= 4096
    assert len(redactor._clean) <= 4097


class _Field(StrEnum):
    PASSWORD = "password"
    NAME = "name"
    VALUE = "value"


class _OldField(str, Enum):  # noqa: UP042  (its `str` is `_OldField.PASSWORD`)
    PASSWORD = "password"


@pytest.mark.parametrize("key", [_Field.PASSWORD, _OldField.PASSWORD, b"password"])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_secret_name_of_another_type(key: Any, is_known: bool) -> None:
    """A key that is a member of an enum or bytes names a secret as its text does, seen before or not."""
    redactor = Redactor()
    if is_known:
        redactor.scrub({"password": "x"})
    for value in ({key: "hunter2"}, {"name": key, "value": "hunter2"}, {"n": [{key: ["hunter2"]}]}):
        assert "hunter2" not in str(redactor.scrub(value).value)


def test_a_pair_with_names_of_another_type() -> None:
    """`name` and `value`, and the options of a program, count in any type."""
    for value in (
        {_Field.NAME: "password", _Field.VALUE: "hunter2"},
        {b"name": b"password", b"value": b"hunter2"},
        [_Flag.PASSWORD, "hunter2"],
    ):
        assert "hunter2" not in str(Redactor().scrub(value).value)


class _Flag(StrEnum):
    PASSWORD = "--password"
