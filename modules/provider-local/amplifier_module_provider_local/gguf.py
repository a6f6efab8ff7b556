"""Read the metadata of a GGUF file: the first few values before the weights."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

from amplifier_kit.named_tuple import NamedTuple

_MAGIC: Final = b"GGUF"
#: Plain values by their number in the format, as `struct` reads them.
_PLAIN: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9
_LONGEST: Final = 1 << 20
_MOST_VALUES: Final = 500
#: The prefix of keys with the whole vocabulary, which come after the ones needed here.
_VOCABULARY: Final = "tokenizer."


class NotGGUFError(ValueError):
    """A file is not a model in the GGUF format; the message says why."""


class ModelFile(NamedTuple):
    """The facts about a model in its file."""

    path: Path
    size: int
    name: str
    architecture: str
    #: The context length that the model was trained for, None if unknown.
    context_length: int | None


def read_model_file(path: Path) -> ModelFile:
    """Read the metadata of a file; raises OSError when it cannot be read, and NotGGUFError for another format."""
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            values = _values(file)
        except (struct.error, UnicodeDecodeError, KeyError) as error:
            raise NotGGUFError(f"{path} is not a valid GGUF file: its metadata cannot be read") from error
    architecture = str(values.get("general.architecture") or "")
    context = values.get(f"{architecture}.context_length")
    return ModelFile(
        path=path,
        size=size,
        name=str(values.get("general.name") or path.stem),
        architecture=architecture,
        context_length=context if isinstance(context, int) and context > 0 else None,
    )


def _values(file: BinaryIO) -> dict[str, Any]:
    if file.read(4) != _MAGIC:
        raise NotGGUFError(f"{file.name} is not a GGUF file: it does not begin with {_MAGIC.decode()}")
    version, _, count = _plain(file, "IQQ")
    if version < 2:
        raise NotGGUFError(f"{file.name} is a GGUF file of version {version}, which is too old: convert it again")
    values: dict[str, Any] = {}
    for _ in range(min(count, _MOST_VALUES)):
        key = _string(file)
        if key.startswith(_VOCABULARY):
            break
        values[key] = _value(file, _plain(file, "I")[0])
    return values


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _plain(file, _PLAIN[kind])[0]
    inner, count = _plain(file, "IQ")
    if count > _LONGEST:
        raise struct.error("an array that is too long")
    return [_value(file, inner) for _ in range(count)]


def _string(file: BinaryIO) -> str:
    (length,) = _plain(file, "Q")
    if length > _LONGEST:
        raise struct.error("a text that is too long")
    data = file.read(length)
    if len(data) < length:
        raise struct.error("the file ends inside a text")
    return data.decode("utf-8")


def _plain(file: BinaryIO, form: str) -> tuple[Any, ...]:
    packed = f"<{form}"
    return struct.unpack(packed, file.read(struct.calcsize(packed)))
