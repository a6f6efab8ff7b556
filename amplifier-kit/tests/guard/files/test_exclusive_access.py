"""Threads that change the same files take turns."""

from __future__ import annotations

import threading
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from amplifier_kit.guard.files import changes, exclusive_access


@settings(max_examples=20)
@given(orders=st.lists(st.permutations(["a", "b", "c"]), min_size=2, max_size=6))
def test_nobody_waits_in_a_circle(orders: list[list[str]]) -> None:
    """Several files are taken in one order, whatever order they are asked for in, and one at a time."""
    inside: list[int] = []

    def work(order: list[str]) -> None:
        for _ in range(20):
            with exclusive_access(Path(name) for name in [*order, *order]):
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    threads = [threading.Thread(target=work, args=(order,), daemon=True) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_locks_are_forgotten() -> None:
    """No lock outlives the work on its file."""
    with exclusive_access([Path("only/here")]):
        assert Path("only/here") in changes._locks
    assert Path("only/here") not in changes._locks
