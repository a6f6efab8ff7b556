"""How much of anything one universe can ask of the services."""

from __future__ import annotations

from amplifier_digital_twin.value import Value


class Bounds(Value):
    """Numbers and seconds beyond which a service stops waiting, or makes others wait."""

    #: Connections served at once; more wait until one ends.
    connections: int = 256
    #: Bytes of a request's or answer's first line and headers.
    head_bytes: int = 64 * 1024
    #: Until those are complete, from their first byte on.
    head_seconds: float = 30.0
    #: Between two requests of one connection.
    idle_seconds: float = 75.0
    #: Without a byte taken or given by a client in the midst of a request or an answer.
    stall_seconds: float = 120.0
    #: Without a byte from the server that was asked.
    answer_seconds: float = 600.0
    #: Until a server takes a connection.
    connect_seconds: float = 20.0
    #: Without a byte in either direction of a tunnel.
    tunnel_seconds: float = 900.0
    #: While a client that was refused goes on sending.
    linger_seconds: float = 2.0
