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


async def test_ambiguity_is_found_after_the_context(make_plan: Any) -> None:
    """The check belongs to phase 3: a missing orchestrator is reported first."""
    plan = make_plan(session={"orchestrator": "loop-nowhere"}, providers=[{"module": "provider-plain"}] * 2)

    with pytest.raises(RuntimeError, match="Cannot initialize without orchestrator"):
        await AmplifierSession(plan).initialize()


async def test_exactly_one_unmount_of_the_default_name(make_plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving a provider to its instance_id takes one unmount of the default name, none if that was occupied."""
    session = AmplifierSession(
        make_plan(
            providers=[
                {"module": "provider-plain", "instance_id": "one"},
                {"module": "provider-plain"},
                {"module": "provider-plain", "instance_id": "two"},
            ]
        )
    )
    unmounted: list[tuple[str, str | None]] = []
    unmount = session.coordinator.unmount

    def spy(mount_point: str, name: str | None = None) -> Any:
        unmounted.append((mount_point, name))
        return unmount(mount_point, name)

    monkeypatch.setattr(session.coordinator, "unmount", spy)

    await session.initialize()

    assert unmounted == [("providers", "plain")]
    assert sorted(session.coordinator.get("providers")) == ["one", "plain", "two"]


@pytest.mark.parametrize("instance", [None, "second"])
async def test_provider_that_declines_has_failed(
    make_plan: Any, make_module: Any, listen: Any, instance: str | None
) -> None:
    """A mount that leaves only a cleanup behind passes as conditional, but no provider is a failed load."""
    make_module("provider-shy", "async def mount(coordinator, config):\n    return lambda: None")
    session = AmplifierSession(make_plan(providers=[{"module": "provider-shy", "instance_id": instance}]))
    heard = listen(session)

    await session.initialize()

    message = "Provider mount did not install a new provider instance"
    assert failures(heard) == [("provider-shy", message, instance)]
    assert session.coordinator._cleanup_fns == []


async def test_provider_that_mounts_nothing_fails_validation(make_plan: Any, make_module: Any, listen: Any) -> None:
    """A mount that leaves nothing at all behind fails its protocol."""
    make_module("provider-mute", "async def mount(coordinator, config):\n    return None")
    session = AmplifierSession(make_plan(providers=[{"module": "provider-mute"}]))
    heard = listen(session)

    await session.initialize()

    [(_, error, _)] = failures(heard)
    assert error.endswith("protocol_compliance: No provider was mounted and mount() did not return a Provider instance")


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


async def test_before_load(make_plan: Any) -> None:
    """The capability provider.before_load is awaited for each entry, with a deep copy of it."""
    entries = [{"module": "provider-plain", "config": {"list": [1]}}, {"module": "provider-plain", "instance_id": "x"}]
    session = AmplifierSession(make_plan(providers=entries))
    calls: list[Any] = []

    async def before_load(coordinator: Any, entry: dict[str, Any]) -> None:
        calls.append((coordinator, entry, list(coordinator.get("providers"))))
        entry.setdefault("config", {}).setdefault("list", []).append("changed")

    session.coordinator.register_capability("provider.before_load", before_load)
    await session.initialize()

    assert [call[0] for call in calls] == [session.coordinator] * 2
    assert [call[1]["module"] for call in calls] == ["provider-plain"] * 2
    assert [call[2] for call in calls] == [[], ["plain"]]
    assert entries == [
        {"module": "provider-plain", "config": {"list": [1]}},
        {"module": "provider-plain", "instance_id": "x"},
    ]
    assert providers_of(session) == {"plain": {"list": [1]}, "x": {}}


async def test_load_failure(make_plan: Any, make_module: Any, listen: Any) -> None:
    """The capability provider.load_failure is awaited after the event, with entry and exception."""
    make_module("provider-broken", "async def mount(coordinator, config):\n    raise ConnectionError('down')")
    entry: dict[str, Any] = {"module": "provider-broken", "instance_id": "x", "config": {"deep": [1]}}
    session = AmplifierSession(make_plan(providers=[entry]))
    heard = listen(session)
    calls: list[Any] = []

    async def load_failure(*arguments: Any) -> None:
        calls.append(arguments)
        heard.append(("load_failure", {}))

    session.coordinator.register_capability("provider.load_failure", load_failure)
    await session.initialize()

    [(coordinator, copied, error)] = calls
    assert coordinator is session.coordinator
    assert copied == entry
    assert copied["config"]["deep"] is not entry["config"]["deep"]
    assert isinstance(error, ConnectionError)
    assert [event for event, _ in heard] == ["module:load_failed", "load_failure"]


async def test_load_failure_may_abort(make_plan: Any, make_module: Any) -> None:
    """Whatever provider.load_failure raises ends initialize() as it is, and leaves nothing mounted."""
    make_module("provider-broken", "async def mount(coordinator, config):\n    raise ConnectionError('down')")
    session = AmplifierSession(make_plan(providers=[{"module": "provider-plain"}, {"module": "provider-broken"}]))

    class Strict(LookupError):
        pass

    async def load_failure(coordinator: Any, entry: Any, error: Exception) -> None:
        raise Strict("all providers or none") from error

    session.coordinator.register_capability("provider.load_failure", load_failure)
    with pytest.raises(Strict, match="all providers or none"):
        await session.initialize()

    assert session.coordinator.get("providers") == {}
    assert session.coordinator.get("orchestrator") is None


@pytest.mark.parametrize("with_capabilities", [False, True])
async def test_config_that_cannot_be_copied(make_plan: Any, make_module: Any, with_capabilities: bool) -> None:
    """A lock in a provider's config reaches the provider, whether or not somebody wants a copy of the entry."""
    lock = threading.Lock()
    session = AmplifierSession(make_plan(providers=[{"module": "provider-plain", "config": {"lock": lock}}]))
    entries: list[Any] = []
    if with_capabilities:
        session.coordinator.register_capability("provider.before_load", lambda c, entry: entries.append(entry))

    await session.initialize()

    assert session.coordinator.get("providers", "plain").config["lock"] is lock
    assert [entry["config"]["lock"] is lock for entry in entries] == [True] * with_capabilities


async def test_ready_is_enqueued_after_the_move(make_plan: Any, make_module: Any) -> None:
    """on_session_ready of a named provider runs when it sits under its instance_id, and not when it failed."""
    make_module(
        "provider-ready",
        """
        from amplifier_module_provider_plain import Provider
        async def mount(coordinator, config):
            name = config.get("name", "ready")
            await coordinator.mount("providers", Provider(name, config), name=name)
        async def on_session_ready(coordinator):
            seen = coordinator.get_capability("seen") or []
            coordinator.register_capability("seen", [*seen, sorted(coordinator.get("providers"))])
        """,
    )
    session = AmplifierSession(
        make_plan(
            providers=[
                {"module": "provider-ready", "instance_id": "mine"},
                {"module": "provider-ready", "instance_id": "lost", "config": {"name": "elsewhere"}},
            ]
        )
    )

    await session.initialize()

    assert session.coordinator.get_capability("seen") == [["mine"]]
