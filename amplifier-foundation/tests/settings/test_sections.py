"""Sections of the settings become config of modules."""

from __future__ import annotations

from typing import Any

from amplifier_foundation.settings.plan import apply_settings

PLAN: dict[str, Any] = {
    "hooks": [{"module": "hooks-routing", "config": {"default_matrix": "quality", "overrides": {}}}]
}


def test_routing_configures_the_module_of_a_bundle() -> None:
    """The matrix of the settings wins over that of the bundle; without the module nothing is added."""
    settings = {"routing": {"matrix": "economy", "overrides": {"fast": [{"provider": "mock"}]}}}
    [entry] = apply_settings(PLAN, settings)["hooks"]
    assert entry["config"] == {"default_matrix": "economy", "overrides": {"fast": [{"provider": "mock"}]}}
    assert apply_settings({"hooks": []}, settings) == {"hooks": []}


def test_an_override_of_the_module_wins() -> None:
    """What `overrides` says of the module is what the user meant for this module alone."""
    overrides = {"hooks-routing": {"config": {"default_matrix": "openai"}}}
    [entry] = apply_settings(PLAN, {"routing": {"matrix": "economy"}, "overrides": overrides})["hooks"]
    assert entry["config"]["default_matrix"] == "openai"


def test_enabled_notifications_add_their_module() -> None:
    """Each channel that is enabled is a hook with its keys; one that is not adds nothing."""
    notifications = {
        "desktop": {"enabled": True, "show_device": False},
        "ntfy": {"enabled": True, "server": "https://ntfy.example"},
        "push": {"enabled": True, "priority": "high"},
    }
    hooks = apply_settings({}, {"config": {"notifications": notifications}})["hooks"]
    assert hooks == [
        {"module": "hooks-notify", "config": {"show_device": False}},
        {"module": "hooks-notify-push", "config": {"server": "https://ntfy.example"}},
    ]
    off = {"desktop": {"enabled": False}, "ntfy": {}}
    assert apply_settings({}, {"config": {"notifications": off}}) == {}
