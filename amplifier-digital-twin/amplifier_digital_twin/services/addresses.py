"""Where services listen inside a universe; its network is its own, so the places can be the same in all of them."""

from __future__ import annotations

from typing import Final

#: The gateway: what programs are told is their HTTP proxy.
GATEWAY: Final = ("127.0.0.1", 3128)
#: The git mirror.
GIT: Final = ("127.0.0.1", 3180)
#: The package index.
INDEX: Final = ("127.0.0.1", 3141)
#: Names that a profile rewrites or mocks resolve to this address, for programs that use no proxy.
INTERCEPTED_HOST: Final = "127.0.0.2"
INTERCEPTED_PORTS: Final = (443, 80)
