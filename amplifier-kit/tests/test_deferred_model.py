"""Tests of the models that are made when the first value is checked."""

from __future__ import annotations

import copy
import json
import pickle

import pydantic_core
import pytest
from pydantic import Field, PrivateAttr, ValidationError, field_validator

from amplifier_kit.deferred_model import DeferredModel


class Inner(DeferredModel):
    """A section."""

    depth: int = 3


class Outer(DeferredModel):
    """A model with all that configs use."""

    name: str = Field("x", min_length=1)
    tags: list[str] = Field(default_factory=list)
    inner: Inner = Field(default_factory=Inner.model_construct)

    _note: str = PrivateAttr(default="none")

    @field_validator("name")
    @classmethod
    def _lower(cls, value: str) -> str:
        return value.lower()


class Required(DeferredModel):
    """A model with a field that has no default."""

    name: str


def test_defaults_make_no_model() -> None:
    """The defaults of a class are read without making its pydantic model, and no two instances share one."""

    class Fresh(Outer):
        more: int = 1

    assert Fresh.model_construct().more == 1
    assert "_deferred_model" not in vars(Fresh)
    one, other = Outer.model_construct(), Outer.model_construct()
    assert (one.name, one.tags, one.inner, one._note) == ("x", [], Inner(), "none")
    assert one == other
    assert one.tags is not other.tags


def test_values_are_checked() -> None:
    """Values are validated, sections become instances of their class, and wrong ones are pydantic's errors."""
    read = Outer.model_validate({"name": "ABC", "inner": {"depth": 5}})
    assert (read.name, read.inner, read.model_fields_set) == ("abc", Inner(depth=5), {"name", "inner"})
    assert Outer(inner=Inner(depth=7)).inner.depth == 7
    for wrong in ({"name": ""}, {"inner": {"depth": "deep"}}):
        with pytest.raises(ValidationError):
            Outer.model_validate(wrong)
    with pytest.raises(ValidationError):
        Required.model_validate({})


def test_what_only_a_model_has() -> None:
    """Fields, JSON schema and dumps are those of the model, wherever pydantic finds an instance."""
    one = Outer(name="b")
    assert list(Outer.model_fields) == ["name", "tags", "inner"]
    assert Outer.model_json_schema()["properties"]["name"]["minLength"] == 1
    expected = {"name": "b", "tags": [], "inner": {"depth": 3}}
    assert one.model_dump() == expected
    assert json.loads(pydantic_core.to_json([one])) == [expected]
    assert repr(one) == "Outer(name='b', tags=[], inner=Inner(depth=3))"


def test_copies() -> None:
    """Copies and pickled instances are equal; a copy may have other values."""
    one = Outer(name="b")
    assert copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)) == one
    changed = one.model_copy(update={"tags": ["t"]})
    assert (changed.tags, changed.model_fields_set, one.tags) == (["t"], {"name", "tags"}, [])
