"""The guard connects to addresses that it has judged, and to no others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from amplifier_kit.guard.network import Endpoint, MalformedError
from amplifier_kit.guard.ssrf import AddressRefusedError, Guard, is_own, resolve

Listen = Callable[..., int]


class Answers:
    """A resolver that gives one answer after the other; the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def connect(guard: Guard, endpoint: Endpoint) -> socket.socket:
    """Return a socket that is connected to the first address that answers."""

    async def attempt(address: str) -> socket.socket:
        connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, (address, endpoint.port))
        except BaseException:
            connection.close()
            raise
        return connection

    return await guard.reach(endpoint, attempt)


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Give `listen(address, port=0)`: a socket that listens there; the port is returned."""
    with ExitStack() as stack:

        def make(address: str = "127.0.0.1", port: int = 0) -> int:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.bind((address, port))
            listener.listen()
            return int(listener.getsockname()[1])

        yield make


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "0.0.0.0", "64:ff9b::7f00:1"]
)
async def test_private_addresses_are_refused(host: str) -> None:
    """An address of a private or special network is not connected to."""
    with pytest.raises(AddressRefusedError, match="private or special network"):
        await connect(Guard(), Endpoint(host, 80))


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f.1", "local host", "a@b"])
async def test_odd_hosts_are_refused(host: str) -> None:
    """A host with several readings never reaches the resolver, whoever passed it on."""
    answers = Answers(["93.184.216.34"])
    with pytest.raises(MalformedError):
        await connect(Guard(resolve=answers), Endpoint(host, 80))
    assert answers.asked == []


async def test_names_of_this_machine_are_refused() -> None:
    """The system's own resolver may say that a name is this machine: refused all the same."""
    with pytest.raises(AddressRefusedError, match="localhost leads to"):
        await Guard().addresses(Endpoint("localhost", 80))


async def test_a_name_is_resolved_once_and_its_answer_connected_to(listen: Listen) -> None:
    """A resolver that changes its answer after the judgement changes nothing: the judged address is connected to."""
    port = listen("127.0.0.2")
    listen("127.0.0.1", port)
    answers = Answers(["127.0.0.2"], ["127.0.0.1"])
    guard = Guard(resolve=answers, judge=lambda address: address == "127.0.0.2")
    with await connect(guard, Endpoint("rebinding.example", port)) as connection:
        assert connection.getpeername()[0] == "127.0.0.2"
    assert answers.asked == ["rebinding.example"]
    with pytest.raises(AddressRefusedError, match=r"leads to 127\.0\.0\.1"):
        await connect(guard, Endpoint("rebinding.example", port))


async def test_of_several_addresses_only_judged_ones_are_tried(listen: Listen) -> None:
    """A public address beside a private one does not open the way to the private one."""
    port = listen("127.0.0.1")
    judged: list[str] = []

    def judge(address: str) -> bool:
        judged.append(address)
        return address == "127.0.0.3"

    guard = Guard(resolve=Answers(["127.0.0.1", "127.0.0.3"]), judge=judge)
    with pytest.raises(OSError, match=r"refused|Connect"):
        await connect(guard, Endpoint("mixed.example", port))
    assert judged == ["127.0.0.1", "127.0.0.3"]


async def test_the_next_address_is_tried_when_one_does_not_answer(listen: Listen) -> None:
    """A name is reached by the first of its addresses that answers."""
    port = listen("127.0.0.1")
    guard = Guard(resolve=Answers(["127.0.0.4", "127.0.0.1"]), judge=lambda address: True)
    with await connect(guard, Endpoint("two.example", port)) as connection:
        assert connection.getpeername()[0] == "127.0.0.1"


async def test_ipv6_is_connected_to(listen: Listen) -> None:
    """An IPv6 address is judged and connected to like any other."""
    try:
        port = listen("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    guard = Guard(judge=lambda address: address == "::1")
    with await connect(guard, Endpoint("::1", port)) as connection:
        assert connection.getpeername()[0] == "::1"


async def test_private_hosts_may_lie_on_this_machine(listen: Listen) -> None:
    """What was named as private, with its port, is reached; other ports and names are not."""
    port = listen()
    guard = Guard([f"127.0.0.1:{port}"])
    (await connect(guard, Endpoint("127.0.0.1", port))).close()
    with pytest.raises(AddressRefusedError):
        await guard.addresses(Endpoint("127.0.0.1", port + 1))
    with pytest.raises(AddressRefusedError):
        await guard.addresses(Endpoint("localhost", port))


@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254"])
async def test_private_hosts_never_lead_to_credentials(address: str) -> None:
    """Not even a host that was named as private may be where a cloud hands out credentials."""
    guard = Guard(["inside.example"], resolve=Answers([address]))
    with pytest.raises(AddressRefusedError):
        await guard.addresses(Endpoint("inside.example", 80))


def test_addresses_of_this_machine() -> None:
    """The machine knows its own addresses, and no packet is sent to find out."""
    assert is_own("127.0.0.1")
    assert not is_own("192.0.2.1")


async def test_own_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of this machine is refused, also one that is public by its form."""
    monkeypatch.setattr("amplifier_kit.guard.ssrf.is_public", lambda address: True)
    with pytest.raises(AddressRefusedError):
        await Guard().addresses(Endpoint("127.0.0.1", 80))
    assert await Guard().addresses(Endpoint("192.0.2.1", 80)) == ["192.0.2.1"]


async def test_further_addresses_are_refused() -> None:
    """What `refuse` names is not connected to, though it is public."""
    guard = Guard(resolve=Answers(["93.184.216.34"]), refuse=lambda address: address.startswith("93."))
    with pytest.raises(AddressRefusedError):
        await guard.addresses(Endpoint("a.example", 80))


@pytest.mark.parametrize("answer", [["not an address"], [""], ["127.0.0.1%lo"]])
async def test_an_invalid_address_is_refused(answer: list[str]) -> None:
    """A resolver that answers nonsense opens nothing."""
    with pytest.raises(AddressRefusedError):
        await Guard(resolve=Answers(answer)).addresses(Endpoint("a.example", 80))


async def test_no_address_is_an_error() -> None:
    """A name without addresses cannot be reached."""
    with pytest.raises(OSError, match="no address"):
        await Guard(resolve=Answers([])).addresses(Endpoint("a.example", 80))


async def test_a_cancelled_question_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that hangs holds up nobody who has given up."""
    import threading

    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: release.wait(60) and [])
    task = asyncio.create_task(resolve("slow.example"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


async def test_the_resolver_raises_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that does not exist is an OSError, and so is one that cannot exist."""

    def fail(error: Exception) -> Any:
        def ask(*args: Any, **options: Any) -> Any:
            raise error

        return ask

    for error in (socket.gaierror(-2, "not known"), UnicodeError("label too long")):
        monkeypatch.setattr(socket, "getaddrinfo", fail(error))
        with pytest.raises(OSError, match=r"not known|too long"):
            await resolve("missing.example")
