"""YAML files that hold JSON."""

from __future__ import annotations

import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_provider_mock.yaml_file import YamlError, plain, read_yaml, write_yaml

texts = st.text() | st.sampled_from(
    ["2026-11-15", "yes", "1e3", "0x1", "12:30", "~", "- a\n  b: |\n", "\x85\u2028 \n\n", "#"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


@given(values)
def test_what_is_written_is_read(value: Any) -> None:
    """Whatever JSON can hold comes back the same, dates, words and odd spaces as the texts they are."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.yaml"
        write_yaml(path, value)
        assert read_yaml(path) == plain(value)


def test_lines_stay_lines(tmp_path: Path) -> None:
    """A text of several lines is written so that people can read it, and nothing is abbreviated."""
    path = tmp_path / "deep" / "file.yaml"
    shared = ["same"]
    write_yaml(path, {"text": "one\ntwo\n", "a": shared, "b": shared})
    assert path.read_text(encoding="utf-8") == "text: |\n  one\n  two\na:\n- same\nb:\n- same\n"


def test_files_are_private_and_whole(tmp_path: Path) -> None:
    """Only the owner may read a recording, and nothing is left beside it."""
    path = tmp_path / "file.yaml"
    write_yaml(path, {})
    write_yaml(path, {"a": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.yaml"]


def test_foreign_values_become_text() -> None:
    """What JSON has no word for is written as text, and what no file can hold as a mark."""
    assert plain({1: (Path("a"), "\ud800b")}) == {"1": ["a", "\ufffdb"]}


@pytest.mark.parametrize(
    ("content", "reason"), [(b"a: [", "is not valid YAML"), (b"\xff", "is not valid YAML"), (b"!!python/x", "is not")]
)
def test_what_cannot_be_read_is_said(tmp_path: Path, content: bytes, reason: str) -> None:
    """A file that is not YAML, or more than data, is refused."""
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(YamlError, match=reason):
        read_yaml(path)
