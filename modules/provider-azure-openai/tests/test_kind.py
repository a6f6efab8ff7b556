"""The module is a provider module like any other."""

from amplifier_core.validation.behavioral import ProviderBehaviorTests
from amplifier_core.validation.structural import ProviderStructuralTests


class TestStructure(ProviderStructuralTests):
    """Inherit the checks of structure."""


class TestBehavior(ProviderBehaviorTests):
    """Inherit the checks of behaviour."""

    async def test_list_models_returns_list(self) -> None:
        """Asked in test_conformance.py, where there is a server to ask."""
