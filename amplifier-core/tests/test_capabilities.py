"""Names of model capabilities."""

from __future__ import annotations

from amplifier_core import capabilities

KNOWN = [
    "tools",
    "streaming",
    "thinking",
    "vision",
    "json_mode",
    "fast",
    "code_execution",
    "web_search",
    "deep_research",
    "local",
    "audio",
    "image_generation",
    "computer_use",
    "embeddings",
    "long_context",
    "batch",
]


def test_well_known_capabilities() -> None:
    """The sixteen are listed in their published order."""
    assert capabilities.ALL_WELL_KNOWN_CAPABILITIES == KNOWN


def test_constants() -> None:
    """Each has a constant that is its name in capitals, and there is no other constant."""
    constants = {name: getattr(capabilities, name) for name in dir(capabilities) if name.isupper()}
    del constants["ALL_WELL_KNOWN_CAPABILITIES"]
    assert constants == {word.upper(): word for word in KNOWN}


def test_public_names() -> None:
    """The constants and the list are what the module exports."""
    assert capabilities.__all__ == [*(word.upper() for word in KNOWN), "ALL_WELL_KNOWN_CAPABILITIES"]
