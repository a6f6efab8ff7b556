"""What happens on a trial mount: isolation from hostile modules, cleanup, and warnings to the author."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.validation import ToolValidator, ValidationResult, _trial

WriteModule = Callable[[str], Path]

TOOL = """
class T:
    name = "t"
    description = "d"
    async def execute(self, input): ...
"""


async def validate(write_module: WriteModule, body: str, before: str = "") -> ValidationResult:
    """Validate a tool module whose mount() has that body and then mounts a valid tool."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return await ToolValidator().validate(
        write_module(
            f"{TOOL}\n{before}\nasync def mount(coordinator, config=None):\n{lines}\n"
            "    await coordinator.mount('tools', T())\n"
        )
    )


def errors(result: ValidationResult) -> list[str]:
    """Return the messages of the failed checks of severity error."""
    return [check.message for check in result.errors]


async def test_mount_that_raises_cancelled_error(write_module: WriteModule) -> None:
    """A CancelledError of the module's own making is its failure, not ours."""
    result = await validate(write_module, "import asyncio\nraise asyncio.CancelledError")
    assert len(errors(result)) == 1
    assert "CancelledError" in errors(result)[0]


HANGS = {
    "sleeping": "import asyncio\nawait asyncio.sleep(3600)",
    "deaf": (
        "import asyncio\n"
        "while True:\n"
        "    try:\n"
        "        await asyncio.sleep(3600)\n"
        "    except asyncio.CancelledError:\n"
        "        pass"
    ),
    "late": ("import asyncio\ntry:\n    await asyncio.sleep(3600)\nexcept asyncio.CancelledError:\n    pass"),
}


@pytest.mark.parametrize("hang", HANGS)
async def test_hanging_mount_is_a_timeout(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch, hang: str
) -> None:
    """A mount() past its deadline fails with the word timeout, even if it ignores its cancellation."""
    monkeypatch.setattr(_trial, "TRIAL_MOUNT_TIMEOUT", 0.01)
    result = await validate(write_module, HANGS[hang])
    assert errors(result) == [
        (
            "Error during protocol compliance check: timeout: mount() was not done after 0.01 seconds. "
            "Return promptly and leave slow work to on_session_ready() or to the first use"
        )
    ]
    assert result.errors[0].name == "protocol_compliance"


async def test_config_is_passed_as_a_copy(write_module: WriteModule) -> None:
    """mount() gets the config, or an empty dict, and cannot change the caller's."""
    package = write_module(
        TOOL + "SEEN = []\n"
        "async def mount(coordinator, config):\n"
        "    SEEN.append(repr(config))\n"
        "    config.setdefault('a', {})['x'] = 1\n"
        "    return T()\n"
    )
    config = {"a": {"b": 1}}
    await ToolValidator().validate(package, config=config)
    await ToolValidator().validate(package)
    from amplifier_core.validation.base import import_module_from_path

    assert import_module_from_path(package).SEEN == ["{'a': {'b': 1}}", "{}"]
    assert config == {"a": {"b": 1}}


# -- warnings --

WRONG_API = (
    'obs_events = coordinator.get_capability("observability.events") or []\n'
    'obs_events.extend(["delegate:agent_spawned", "delegate:agent_completed"])\n'
    'coordinator.register_capability("observability.events", obs_events)'
)


async def test_events_offered_as_a_capability(write_module: WriteModule) -> None:
    """Events registered through the wrong API pass with one warning, which shows the right call."""
    package = write_module("")
    module_id = package.name.removeprefix("amplifier_module_").replace("_", "-")
    (package / "__init__.py").write_text(
        TOOL
        + "async def mount(coordinator, config=None):\n"
        + "".join(f"    {line}\n" for line in WRONG_API.splitlines())
        + "    await coordinator.mount('tools', T())\n"
    )
    result = await ToolValidator().validate(package)
    assert result.passed
    assert [(check.name, check.message) for check in result.warnings] == [
        (
            "contribution_channel",
            (
                'mount() called register_capability("observability.events", ...) to announce events, but '
                "collect_contributions() will never see it. Use coordinator.register_contributor("
                f'"observability.events", "{module_id}", lambda: [...])'
            ),
        )
    ]
    assert len(result.checks) == 9


async def test_any_list_of_event_names_is_recognised(write_module: WriteModule) -> None:
    """The name of the capability does not matter, what it lists does."""
    result = await validate(write_module, 'coordinator.register_capability("mine", ("delegate:agent_spawned",))')
    assert [check.name for check in result.warnings] == ["contribution_channel"]
    assert 'register_capability("mine", ...)' in result.warnings[0].message


@pytest.mark.parametrize(
    "body",
    [
        'coordinator.register_capability("mine", ["just", "words"])',
        'coordinator.register_capability("mine", [])',
        'coordinator.register_capability("mine", ["a:b", 5])',
        'coordinator.register_capability("mine", lambda: ["a:b"])',
        'coordinator.register_contributor("observability.events", "tool-t", lambda: ["delegate:error"])',
        (
            'coordinator.register_contributor("observability.events", "tool-t", lambda: ["delegate:error"])\n'
            'coordinator.register_capability("observability.events", ["delegate:error"])'
        ),
    ],
)
async def test_right_use_gets_no_warning(write_module: WriteModule, body: str) -> None:
    """Other capabilities, contributors, and offering the events both ways are fine: exactly eight checks."""
    result = await validate(write_module, body)
    assert len(result.checks) == 8
    assert result.warnings == []


async def test_looking_at_other_modules_in_mount(write_module: WriteModule) -> None:
    """The dual-path start passes with one warning, which names what was looked at and where it belongs."""
    result = await validate(
        write_module,
        'if coordinator.get_capability("skills.discovery") is not None: pass\n'
        'coordinator.get_capability("skills.discovery")\n'
        'for events in await coordinator.collect_contributions("observability.events"): pass',
    )
    assert result.passed
    assert [(check.name, check.message) for check in result.warnings] == [
        (
            "mount_order",
            (
                'mount() looked up other modules before all are mounted: get_capability("skills.discovery"), '
                'collect_contributions("observability.events"). Move it to `async def on_session_ready(coordinator)`'
            ),
        )
    ]
    assert len(result.checks) == 9


async def test_odd_names_do_not_harm_the_notes(write_module: WriteModule) -> None:
    """Names that are no text, and values that cannot be looked at, are the module's own business."""
    result = await validate(
        write_module,
        "try: coordinator.get_capability([])\n"
        "except TypeError: pass\n"
        "class Trap(list):\n"
        "    def __iter__(self): raise RuntimeError\n"
        "coordinator.register_capability('mine', Trap(['a:b']))",
    )
    assert len(result.checks) == 8
