"""Sections of the settings that stand for modules: `routing`, and `config.notifications`.

| section | module | config |
|---|---|---|
| `routing.matrix`, `.overrides` | hooks-routing, where a bundle has it | `default_matrix`, `overrides` |
| `config.notifications.desktop` | hooks-notify, added when `enabled` | its keys |
| `config.notifications.ntfy`, or `.push` | hooks-notify-push, added when `enabled` | its keys |

What `overrides` and `modules` say of these modules wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from amplifier_foundation.merge import OVERLAY, merge

__all__ = ["with_sections"]

_ROUTING: Final = (("matrix", "default_matrix"), ("overrides", "overrides"))
_CHANNELS: Final = {
    "desktop": "hooks-notify",
    "ntfy": "hooks-notify-push",
    "push": "hooks-notify-push",
}


def with_sections(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings in which these sections are entries of `overrides` and `modules`."""
    routing, hooks = _routing(settings), list(_notifications(settings))
    if not routing and not hooks:
        return settings
    overrides = merge(
        {"hooks-routing": {"config": routing}} if routing else {}, settings.get("overrides") or {}, OVERLAY
    )
    modules = dict(settings.get("modules") or {})
    return {
        **settings,
        "overrides": overrides,
        "modules": {**modules, "hooks": [*hooks, *(modules.get("hooks") or [])]},
    }


def _routing(settings: Mapping[str, Any]) -> dict[str, Any]:
    section = settings.get("routing")
    if not isinstance(section, Mapping):
        return {}
    return {key: section[name] for name, key in _ROUTING if section.get(name)}


def _notifications(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    section = (settings.get("config") or {}).get("notifications")
    added: set[str] = set()
    for channel, module in _CHANNELS.items():
        config = section.get(channel) if isinstance(section, Mapping) else None
        if isinstance(config, Mapping) and config.get("enabled") is True and module not in added:
            added.add(module)
            yield {"module": module, "config": {key: value for key, value in config.items() if key != "enabled"}}
