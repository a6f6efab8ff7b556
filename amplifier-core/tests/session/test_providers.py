"""Providers: several of one module, their names, and what an app may add around their loading."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from amplifier_core import AmplifierSession


def providers_of(session: AmplifierSession) -> dict[str, Any]:
    """Return the configs of the mounted providers by name, in order."""
    return {name: provider.config for name, provider in session.coordinator.get("providers").items()}


def failures(heard: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str, str | None]]:
    """Return module, error and instance of each failed load."""
    failed = [data for event, data in heard if event == "module:load_failed"]
    return [(data["module_id"], data["error"], data.get("instance_id")) for data in failed]


async def test_failure_restores_earlier_occupants_in_order(make_plan: Any, make_module: Any, listen: Any) -> None:
    """What a failing provider replaced comes back, in its old place, and what it added is gone."""
    make_module(
        "provider-thief",
        """
        from amplifier_module_provider_plain import Provider
        async def mount(coordinator, config):
            await coordinator.unmount("providers", "a")
            await coordinator.mount("providers", Provider("b", {"stolen": True}), name="b")
            await coordinator.mount("providers", Provider("extra", {}), name="extra")
            coordinator.mount_points["providers"]["direct"] = Provider("direct", {})
            raise ConnectionError("no network")
        """,
    )
    entries = [{"module": "provider-plain", "instance_id": name, "config": {"was": name}} for name in ("a", "b", "c")]
    session = AmplifierSession(make_plan(providers=[*entries, {"module": "provider-thief"}]))
    live = session.coordinator.get("providers")
    heard = listen(session)

    await session.initialize()

    assert failures(heard) == [("provider-thief", "no network", None)]
    assert list(providers_of(session).items()) == [("a", {"was": "a"}), ("b", {"was": "b"}), ("c", {"was": "c"})]
    assert session.coordinator.get("providers") is live


@pytest.mark.parametrize("with_capabilities", [False, True])
async def test_config_that_cannot_be_copied(make_plan: Any, make_module: Any, with_capabilities: bool) -> None:
    """A lock in a provider's config reaches the provider, whether or not a capability gets a copy of the entry."""
    lock = threading.Lock()
    session = AmplifierSession(make_plan(providers=[{"module": "provider-plain", "config": {"lock": lock}}]))
    entries: list[Any] = []
    if with_capabilities:
        session.coordinator.register_capability("provider.before_load", lambda c, entry: entries.append(entry))

    await session.initialize()

    assert session.coordinator.get("providers", "plain").config["lock"] is lock
    assert [entry["config"]["lock"] is lock for entry in entries] == [True] * with_capabilities
