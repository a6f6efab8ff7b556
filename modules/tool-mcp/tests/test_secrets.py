"""What a variable holds is in the server's environment or its requests, and nowhere else."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_mcp.faults import ServerFault
from amplifier_module_tool_mcp.server_entry import Mask, ServerSpec, expanded, read_spec

Session = Any
Odd = Callable[..., dict[str, Any]]
VALUE = "value-of-the-variable"


def _all_files(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("behaviour", ["plain", "exit"])
async def test_no_value_is_ever_said(
    session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, behaviour: str
) -> None:
    """Not in results, events, logs, files, nor what objects say of themselves; the name stands in its place."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ODD_SECRET", VALUE)
    entry = odd(behaviour, "--key=${ODD_SECRET}", env={"ODD_KEY": "${ODD_SECRET}", "ODD_TOKEN": "a-literal-token"})
    await session.open({"odd": entry}, retry={"attempts": 1}, verbose_servers=True)
    if behaviour == "plain":
        result = await session.call("odd_secret")
        assert result.output["content"] == "${ODD_SECRET} --key=${ODD_SECRET}"
        said = str(result.model_dump())
        await session.close()
    else:
        said = (await session.told("failed"))["reason"]
        assert "cannot start: --key=${ODD_SECRET}" in said
    servers = session.coordinator.get_capability("mcp.servers")
    objects = repr([vars(servers), vars(session.connection()), session.connection().spec, vars(servers._masks["odd"])])
    asked = await session.coordinator.hooks.emit("provider:request", {})
    texts = [said, session.everything_said(), caplog.text, _all_files(session.home), str(asked)]
    assert all(VALUE not in text for text in texts)
    assert all("a-literal-token" not in text for text in texts)
    assert "${ODD_SECRET}" in _all_files(session.home / "logs")
    assert VALUE not in repr(session.connection().spec) + repr(
        session.connection().spec.resolved({"ODD_SECRET": VALUE})
    )
    assert VALUE not in objects.replace(repr(vars(servers._masks["odd"])), "")


async def test_headers_are_not_said(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot be reached is told without its password and headers."""
    monkeypatch.setenv("THE_TOKEN", VALUE)
    entry = {"url": "http://user:password-in-url@127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${THE_TOKEN}"}}
    await session.open({"web": entry}, retry={"attempts": 1})
    await session.told("failed")
    assert VALUE not in session.everything_said()
    assert "password-in-url" not in session.everything_said()
    assert "password-in-url" not in repr(session.connection("web").spec)


def test_variables() -> None:
    """A variable is put in, a default stands for one that is unset or empty, and one without either is named."""
    mask = Mask()
    given = {"A": "first", "EMPTY": "", "SECRET_KEY": "hidden-one"}

    def put(text: str) -> str:
        return expanded(text, given, mask, is_secret=False)

    assert put("${A}/${NONE:-b}/${EMPTY:-c}/${EMPTY}/$A/${not a name}") == "first/b/c//$A/${not a name}"
    with pytest.raises(ServerFault, match="NONE is not set"):
        put("${NONE}")
    assert put("${SECRET_KEY}") == "hidden-one"
    assert mask.diagnostic("first hidden-one") == "${A} ${SECRET_KEY}"
    assert mask.answer("first hidden-one") == "first ${SECRET_KEY}"


@given(st.text(min_size=4, max_size=30).filter(lambda text: text.strip() == text), st.text(max_size=20))
def test_masks(value: str, around: str) -> None:
    """Wherever a value stands in a text, it is not there any more."""
    mask = Mask()
    mask.add(value, "[x]", is_secret=True)
    for text in (f"{around}{value}{around}", f"{value}{value}", value):
        assert mask.diagnostic(text).count(value) == 0 or value in f"{around}[x]{around}"


def test_literal_secrets_are_hidden() -> None:
    """A key that is written into the config itself is hidden as one from a variable is."""
    spec = read_spec("a", {"command": "x", "env": {"API_KEY": "written-in-plain", "MODE": "quick-mode"}}, "here")
    assert isinstance(spec, ServerSpec)
    resolved = spec.resolved({})
    assert resolved.mask.diagnostic("written-in-plain quick-mode") == "[hidden] quick-mode"
    assert "written-in-plain" not in repr(spec) + repr(resolved)


def test_values_in_other_forms() -> None:
    """What a variable held is hidden as well when a server writes it in base64, in hex or quoted for an address."""
    mask = Mask()
    value = "harmless-looking phrase/42"
    mask.add(value, "${ODD}", is_secret=True)
    for form in (base64.b64encode(value.encode()).decode(), value.encode().hex(), quote(value, safe="")):
        for shown in (mask.diagnostic(f"said {form} twice"), mask.answer(f"said {form} twice")):
            assert shown.startswith("said ${ODD}")
            assert not any(form[at : at + 8] in shown for at in range(len(form) - 8))
