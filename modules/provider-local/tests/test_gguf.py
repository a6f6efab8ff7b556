"""The head of a model's file tells its name and its limits."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_module_provider_local.gguf import NotGGUFError, read_model_file


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _file(*values: tuple[str, bytes], version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, 0, len(values))
    return head + b"".join(_text(key) + value for key, value in values)


_ARCHITECTURE = ("general.architecture", struct.pack("<I", 8) + _text("llama"))
_TAGS = ("general.tags", struct.pack("<IIQ", 9, 8, 2) + _text("a") + _text("b"))
_CONTEXT = ("llama.context_length", struct.pack("<II", 4, 8192))
_NAME = ("general.name", struct.pack("<I", 8) + _text("Tiny Möwe"))


def test_name_and_context(tmp_path: Path) -> None:
    """Name, architecture and context are read, past arrays, and up to the vocabulary."""
    path = tmp_path / "x.gguf"
    path.write_bytes(_file(_ARCHITECTURE, _TAGS, _CONTEXT, _NAME, ("tokenizer.ggml.model", b"\xff")))
    read = read_model_file(path)
    assert (read.name, read.architecture, read.context_length) == ("Tiny Möwe", "llama", 8192)
    assert read.size == path.stat().st_size


def test_a_file_that_says_little(tmp_path: Path) -> None:
    """A model without a name has that of its file, and its context is unknown."""
    path = tmp_path / "my model.gguf"
    path.write_bytes(_file(_ARCHITECTURE))
    assert (read_model_file(path).name, read_model_file(path).context_length) == ("my model", None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=80), is_marked=st.booleans())
def test_any_other_file(tmp_path: Path, data: bytes, is_marked: bool) -> None:
    """Whatever bytes a file holds, it is a model or it is said that it is none."""
    path = tmp_path / "x.gguf"
    path.write_bytes((b"GGUF\x03\x00\x00\x00" if is_marked else b"") + data)
    try:
        read = read_model_file(path)
    except NotGGUFError:
        return
    assert read.size == len(data) + 8 * is_marked


def test_too_long_to_be_true(tmp_path: Path) -> None:
    """A length that no model has is not read into memory."""
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60))
    with pytest.raises(NotGGUFError, match="not a valid GGUF file"):
        read_model_file(path)
