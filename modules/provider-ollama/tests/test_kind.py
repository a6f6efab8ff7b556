"""The module is a provider module like any other."""

import pytest

from amplifier_core.validation.behavioral import ProviderBehaviorTests
from amplifier_core.validation.structural import ProviderStructuralTests


class TestStructure(ProviderStructuralTests):
    """Inherit the checks of structure."""


class TestBehavior(ProviderBehaviorTests):
    """Inherit the checks of behaviour."""

    @pytest.mark.skip(reason="there is no service here: test_conformance.py asks one")
    async def test_list_models_returns_list(self) -> None:
        """Asked in test_conformance.py, where there is a server to ask."""
