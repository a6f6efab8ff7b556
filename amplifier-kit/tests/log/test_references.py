"""Short lines that stand for whole payloads: whatever goes in comes back."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.log.blobs import LIMIT, BlobStore
from amplifier_kit.log.record import encode
from amplifier_kit.log.references import ListTracker, Shortener, apply_delta, expand, fields_of, references

marks = st.sampled_from(["$blob", "$list", "$literal", "base", "append", "keep", "bytes", "preview"])
texts = st.text(max_size=20) | st.sampled_from(["long " * 1000, "ü" * 2500, '"' * 3000, "sha256:" + "0" * 64])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
#: Containers that are large though nothing in them is.
crowds = st.integers(100, 1500).map(lambda size: [None] * size) | st.integers(50, 400).map(
    lambda size: {f"key-{index}": index for index in range(size)}
)
values = st.recursive(
    scalars | crowds,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(marks | st.sampled_from(["messages", "text", ""]) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=10,
)
payloads = st.dictionaries(marks | st.sampled_from(["messages", "result"]) | st.text(max_size=5), values, max_size=5)


class Written:
    """A spine, and a reader of its lines that keeps the lists in memory."""

    def __init__(self, folder: Path) -> None:
        self.blobs = BlobStore(folder)
        self.spine = Shortener(self.blobs, ListTracker())
        self.lists: dict[str, dict[str, Any]] = {}

    def write(self, payload: dict[str, Any]) -> Any:
        short = json.loads(self.spine.shorten(payload))
        self.spine.confirm()
        for reference in references(short):
            if "$list" in reference:
                self.lists.setdefault(reference["$list"], reference)
        return short

    def items(self, reference: dict[str, Any]) -> list[Any]:
        base = reference.get("base")
        kept = [] if base is None else self.items(self.lists[base])
        added = reference["append"]
        if isinstance(added, dict):
            added = self.blobs.get(added["$blob"])
        return apply_delta(kept, reference.get("keep"), added)

    def read(self, short: Any) -> Any:
        return expand(short, self.blobs.get, self.items)


def sizes(value: Any) -> list[int]:
    """Return the sizes of everything inside a value that stands in a line."""
    inside = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    return [len(encode(item)) for item in inside] + [size for item in inside for size in sizes(item)]


@given(payloads)
def test_every_payload_comes_back(payload: dict[str, Any]) -> None:
    """Large values at any depth, and objects that look like references, are what they were."""
    with TemporaryDirectory() as folder:
        written = Written(Path(folder))
        assert written.read(written.write(payload)) == payload


@given(payloads)
def test_nothing_large_stays_in_the_line(payload: dict[str, Any]) -> None:
    """No value in a line has more than 4 kB, at any depth."""
    with TemporaryDirectory() as folder:
        short = Written(Path(folder)).write(payload)
        assert max(sizes(fields_of(short)), default=0) <= LIMIT


messages = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": texts})
edits = st.lists(
    st.tuples(st.integers(0, 4), st.lists(messages, max_size=4), st.booleans(), st.integers(0, 3)), max_size=12
)


@given(st.lists(messages, min_size=1, max_size=12), edits)
def test_every_history_comes_back(history: list[dict[str, Any]], edits: list[tuple[int, Any, bool, int]]) -> None:
    """A history that grows, loses its end, or is cut anywhere is whole in every line that has it."""
    with TemporaryDirectory() as folder:
        written = Written(Path(folder))
        requests = [list(history)]
        for dropped, added, compacted, at in edits:
            history = history[: len(history) - dropped] if dropped else list(history)
            if compacted and history:
                history[at % len(history)] = {"role": "system", "content": "summary"}
                del history[at + 1 : at + 3]
            history = history + added
            requests.append(history)
        shorts = [written.write({"messages": request, "model": "m"}) for request in requests]
        assert [written.read(short)["messages"] for short in shorts] == requests


def test_a_request_costs_what_it_added(tmp_path: Path) -> None:
    """A history of hundreds of messages is written once; each request adds its own."""
    written = Written(tmp_path)
    history = [{"role": "user", "content": f"{index} " + "word " * 40} for index in range(300)]
    written.write({"messages": history})
    sizes = []
    for index in range(20):
        history = [*history, {"role": "user", "content": f"new {index}"}]
        sizes.append(len(encode(written.write({"messages": history}))))
    assert max(sizes) < 400


def test_a_small_payload_is_left_alone(tmp_path: Path) -> None:
    """Below the limit nothing is swapped, and nothing touches the disk."""
    written = Written(tmp_path / "blobs")
    payload = {"messages": [{"role": "user", "content": "hi"}], "note": "$blob is only text here"}
    assert written.write(payload) == payload
    assert not (tmp_path / "blobs").exists()


def test_structure_stays_visible(tmp_path: Path) -> None:
    """The large part of a result leaves the line, the rest can still be searched."""
    short = Written(tmp_path).write({"result": {"success": True, "output": "x" * 5000}})
    assert short["result"]["success"] is True
    assert short["result"]["output"] == {
        "$blob": short["result"]["output"]["$blob"],
        "bytes": 5002,
        "preview": "x" * 200,
    }


def test_exactly_the_limit_stays(tmp_path: Path) -> None:
    """4,096 bytes of JSON stay in the line, one more leaves it."""
    written = Written(tmp_path)
    assert written.write({"text": "x" * (LIMIT - 2), "other": "y" * 100})["text"] == "x" * (LIMIT - 2)
    assert "$blob" in written.write({"text": "x" * (LIMIT - 1)})["text"]


def test_a_repeated_value_is_stored_once(tmp_path: Path) -> None:
    """A system prompt or a list of tools that comes with every request takes its place once."""
    written = Written(tmp_path)
    tools = [{"name": f"tool-{index}", "description": "d" * 100} for index in range(100)]
    for index in range(10):
        written.write({"tools": tools, "n": index})
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_literal_reference_is_not_followed(tmp_path: Path) -> None:
    """A payload that quotes the log itself comes back as it was, and no file is looked for."""
    written = Written(tmp_path)
    payload = {"quoted": {"$blob": f"sha256:{'0' * 64}", "bytes": 5, "preview": "x"}, "again": {"$literal": {"a": 1}}}
    short = written.write(payload)
    assert short["quoted"] == {"$literal": payload["quoted"]}
    assert written.read(short) == payload


def test_lists_inside_blobs_are_no_bases(tmp_path: Path) -> None:
    """What readers of the lines cannot find is never referred to."""
    written = Written(tmp_path)
    history = [{"role": "user", "content": f"{index} " + "w" * 200} for index in range(30)]
    # Enough small fields beside the list for the object around it to become a blob.
    hidden = {"request": {"messages": history, **{f"field-{n}": "v" * 100 for n in range(60)}}}
    short = written.write(hidden)
    assert "$blob" in short["request"]
    visible = written.write({"messages": [*history, {"role": "user", "content": "more"}]})
    assert "base" not in visible["messages"]
    assert written.read(short) == hidden


def test_what_nests_without_end_is_cut(tmp_path: Path) -> None:
    """A record that no JSON writer would take is written in part rather than not at all."""
    deep: Any = "x" * 6000
    for _ in range(2000):
        deep = {"d": deep}
    written = Written(tmp_path)
    assert "too deep" in str(written.read(json.loads(written.spine.shorten({"deep": deep}))))
