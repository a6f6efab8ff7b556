"""The names that code written for the published foundation imports."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import amplifier_foundation
from amplifier_foundation import _HOMES


def test_every_name_can_be_imported() -> None:
    """`from amplifier_foundation import *` gives every public name, each from the module it is listed under."""
    names: dict[str, object] = {}
    exec("from amplifier_foundation import *", names)
    for name, home in _HOMES.items():
        assert names[name] is getattr(importlib.import_module(f"amplifier_foundation.{home}"), name)
        assert name in dir(amplifier_foundation)


def test_modules_list_their_public_names() -> None:
    """`import *` from such a module gives the names that the package has of it."""
    for name, home in _HOMES.items():
        module = importlib.import_module(f"amplifier_foundation.{home}")
        assert name in getattr(module, "__all__", [name])


def test_an_unknown_name_is_an_attribute_error() -> None:
    """What is no public name is missing, as anywhere."""
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = amplifier_foundation.no_such_name


def test_importing_the_package_imports_no_module_of_it() -> None:
    """A name costs its module when it is used, and nothing before."""
    code = (
        "import sys, amplifier_foundation; "
        "print(*[name for name in sys.modules if name.startswith('amplifier_') and '.' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
