"""No redirect and no resolver leads a fetch from a public host to a private address."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_kit.guard.network import Endpoint, MalformedError, is_public, parse_url
from amplifier_kit.guard.ssrf import AddressRefusedError, Guard

CORPUS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "corpus" / "redirects.yaml").read_text(encoding="utf-8")
)
NAMES = {"inside.example": ["10.0.0.7"], "localhost": ["127.0.0.1"], "public.example": ["8.8.8.8"]}


async def by_name(host: str) -> Sequence[str]:
    """Resolve what the corpus names; an address is itself."""
    return NAMES.get(host, [host])


async def led(location: str) -> list[str]:
    """Return the addresses that a redirect from a public host would be connected to."""
    target = parse_url("http://public.example/start").joined(location)
    return list(await Guard(resolve=by_name).addresses(target.endpoint))


@pytest.mark.parametrize("location", CORPUS["redirects"])
async def test_a_redirect_does_not_lead_inside(location: str) -> None:
    """Every location of the corpus is refused: it can be misread, or its address is judged."""
    with pytest.raises((AddressRefusedError, MalformedError)):
        await led(location)


@pytest.mark.parametrize(
    "location", ["/there", "//public.example/x", "http://8.8.8.8/", "http://[2606:4700:4700::1111]/"]
)
async def test_an_honest_redirect_is_followed(location: str) -> None:
    """The same way leads to public hosts."""
    assert all(map(is_public, await led(location)))


@pytest.mark.parametrize("answers", CORPUS["rebinding"], ids=str)
async def test_a_name_is_judged_each_time(answers: list[list[str]]) -> None:
    """What was judged is all that is used, and a second answer is judged like the first."""
    left = list(answers)

    async def changing(host: str) -> Sequence[str]:
        return left.pop(0)

    guard = Guard(resolve=changing)
    assert list(await guard.addresses(Endpoint("rebinding.example", 80))) == answers[0]
    assert left == answers[1:], "one question for one judgement"
    with pytest.raises(AddressRefusedError):
        await guard.addresses(Endpoint("rebinding.example", 80))


@pytest.mark.parametrize("answer", CORPUS["mixed"], ids=str)
async def test_a_public_address_opens_no_other(answer: list[str]) -> None:
    """Of several addresses the judged ones are left, in their order."""

    async def resolve(host: str) -> Sequence[str]:
        return answer

    found = list(await Guard(resolve=resolve).addresses(Endpoint("mixed.example", 80)))
    assert found == [address for address in answer if is_public(address)]
    assert 0 < len(found) < len(answer)
