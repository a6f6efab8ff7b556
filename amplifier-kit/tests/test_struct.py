"""Structs behave like data classes."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from amplifier_kit.struct import FrozenStruct, Struct


class Server(FrozenStruct):
    """A frozen struct with every kind of field."""

    kind: ClassVar[str] = "server"

    name: str
    ports: tuple[int, ...] = ()
    tags: list[str] = field(default_factory=list)
    key: str | None = field(default=None, repr=False, compare=False)


class Mirror(Server):
    """Adds a field to those of its base."""

    of: str = ""


class Counter(Struct):
    """A struct that can be changed."""

    count: int = 0


def test_fields_are_set_by_position_and_by_name() -> None:
    """Other fields have their default, created for each instance by a factory."""
    first, second = Server("a", (1,)), Server(ports=(1,), name="a")
    assert (first.name, first.ports, first.tags, first.key) == ("a", (1,), [], None)
    assert first.tags is not second.tags
    assert Mirror("b", of="a").of == "a"


@pytest.mark.parametrize(
    ("given", "named", "problem"),
    [
        ((), {}, "'name' is missing"),
        (("a",), {"name": "b"}, "'name' is given twice"),
        (("a",), {"nam": "b"}, "'nam' is unknown"),
        (("a",), {"kind": "b"}, "'kind' is unknown"),
        (("a", (), [], None, 5), {}, "takes 4 arguments, got 5"),
    ],
)
def test_wrong_arguments_are_errors(given: tuple[Any, ...], named: dict[str, Any], problem: str) -> None:
    """The TypeError names an argument that is missing, unknown or given twice."""
    with pytest.raises(TypeError, match=problem):
        Server(*given, **named)


def test_frozen_structs_do_not_change() -> None:
    """Fields can be neither set nor deleted; `replace` returns another instance."""
    server = Server("a")
    with pytest.raises(FrozenInstanceError):
        server.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del server.name
    assert (server.name, replace(server, name="b").name) == ("a", "b")


def test_other_structs_change() -> None:
    """A struct that is not frozen can be changed, so it has no hash."""
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError):
        hash(counter)


def test_equal_structs_have_the_same_type_and_fields() -> None:
    """Fields with `compare=False` do not count; equal structs have the same hash."""
    assert Server("a", key="k") == Server("a")
    assert Server("a") != Server("b")
    assert Mirror("a") != Server("a")
    assert hash(Server("a", tags=(), key="k")) == hash(Server("a", tags=()))  # type: ignore[arg-type]


class Port(FrozenStruct):
    """A struct that checks its field."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("a port is a positive number")


def test_structs_check_their_fields() -> None:
    """`__post_init__` sees the fields, also those that `replace` changes."""
    with pytest.raises(ValueError, match="positive"):
        replace(Port(1), number=-1)


def test_repr_leaves_secrets_out() -> None:
    """Fields with `repr=False` are not shown."""
    assert repr(Server("a", key="secret-key")) == "Server(name='a', ports=(), tags=[])"


def test_structs_are_data_classes_for_the_standard_library() -> None:
    """`fields`, `asdict` and pickle accept them."""
    server = Server("a", (1, 2), ["x"], "k")
    assert [one.name for one in fields(Server)] == ["name", "ports", "tags", "key"]
    assert asdict(server) == {"name": "a", "ports": (1, 2), "tags": ["x"], "key": "k"}
    assert pickle.loads(pickle.dumps(server)) == server
