"""The module is what it says it is, in a separate home."""

from amplifier_core.validation.behavioral import ContextBehaviorTests
from amplifier_core.validation.structural import ContextStructuralTests


class TestStructure(ContextStructuralTests):
    """The structure of a context module."""


class TestBehavior(ContextBehaviorTests):
    """The behaviour of a context manager."""
