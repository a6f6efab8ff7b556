"""What a plan says about the sandbox is read exactly, and a module cannot undo what its session requires."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import settings_of

_MODES = st.sampled_from(["required", "auto", "off", True, False])
_LISTS = st.lists(st.sampled_from(["a", "/b", "~/c"]), max_size=2)
_MAPPINGS = st.fixed_dictionaries(
    {},
    optional={"mode": _MODES, "network": st.booleans(), "writable": _LISTS, "readable": _LISTS, "environment": _LISTS},
)
_CONFIGS = st.one_of(st.none(), _MODES, _MAPPINGS)


def test_forms() -> None:
    """A mode alone, a mapping, nothing at all; YAML's false is `off` and its true is `auto`."""
    assert SandboxConfig.from_config(None) == SandboxConfig(
        mode="auto", network=False, writable=(), readable=(), environment=()
    )
    assert SandboxConfig.from_config("required").mode == "required"
    assert SandboxConfig.from_config(False).mode == "off"
    assert SandboxConfig.from_config(True).mode == "auto"
    full = {"mode": False, "network": True, "writable": ["w"], "readable": ["~/r"], "environment": ["E"]}
    assert SandboxConfig.from_config(full) == SandboxConfig(
        mode="off", network=True, writable=("w",), readable=("~/r",), environment=("E",)
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("on", "'sandbox' must be one of required, auto, off"),
        (5, "or a mapping with mode, network"),
        (["auto"], "or a mapping with"),
        ({"mode": "strict"}, r"'sandbox\.mode' must be one of"),
        ({"network": "yes"}, r"'sandbox\.network' must be true or false"),
        ({"networks": True}, "'sandbox' must be .*: unknown keys networks"),
        ({"writable": "/srv"}, r"'sandbox\.writable' must be a list"),
        ({"writable": ["/"]}, "none of them the root folder"),
        ({"readable": ["/usr/.."]}, "none of them the root folder"),
        ({"readable": ["a\0b"]}, "a list of paths"),
        ({"environment": [""]}, r"'sandbox\.environment' must be a list of texts"),
    ],
)
def test_what_means_nothing(value: Any, said: str) -> None:
    """It is refused, and the key is named: a slip must not leave something open."""
    with pytest.raises(ValueError, match=said):
        SandboxConfig.from_config(value)


@given(session=_CONFIGS, module=_CONFIGS)
def test_a_module_cannot_loosen_what_is_required(session: Any, module: Any) -> None:
    """Under `required` nothing of the module's makes the sandbox wider; otherwise what it says holds."""
    outer = SandboxConfig.from_config(session)
    layered = SandboxConfig.layered(session, module)
    if outer.mode == "required":
        assert layered.mode == "required"
        assert layered.network <= outer.network
        assert (layered.writable, layered.readable, layered.environment) == (
            outer.writable,
            outer.readable,
            outer.environment,
        )
    else:
        assert layered == SandboxConfig.from_config(module, outer)
    assert layered.is_looser(session, module) == (layered != SandboxConfig.from_config(module, outer))


@given(module=_CONFIGS)
def test_nothing_said_is_the_default(module: Any) -> None:
    """Without a word of the session, a module has what it asks for; without either, `auto`."""
    assert SandboxConfig.layered(None, module) == SandboxConfig.from_config(module)
    assert SandboxConfig.layered(None, None) == SandboxConfig()


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ("off", SandboxConfig()),
        ({"network": True, "writable": ["../x"], "environment": ["TOKEN"]}, SandboxConfig()),
        ({"mode": "required", "network": True}, SandboxConfig(mode="required")),
    ],
)
def test_an_untrusted_project_opens_nothing(wanted: Any, left: SandboxConfig) -> None:
    """What files of a project say that nobody trusts can make the sandbox required, and nothing else."""
    session = AmplifierSession({"session": {"orchestrator": "x", "context": "x", "sandbox": wanted}})
    session.coordinator.register_capability("plan.is_trusted", lambda module: False)
    assert settings_of(session.coordinator) == left
    session.coordinator.register_capability("plan.is_trusted", lambda module: module == "sandbox")
    assert settings_of(session.coordinator) == SandboxConfig.from_config(wanted)


@given(settings=_CONFIGS, base=_CONFIGS)
def test_nothing_opens_what_is_shut(settings: Any, base: Any) -> None:
    """Read over any other settings, the strictest form stays as it is."""
    shut = SandboxConfig.from_config(settings).shut()
    assert SandboxConfig.from_config(shut, SandboxConfig.from_config(base)) == shut
