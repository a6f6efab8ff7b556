"""Keep the garbage collector out of the way while a program starts and while it ends."""

from __future__ import annotations

import atexit
import gc


def collect_nothing() -> None:
    """Stop collecting: hundreds of imports make objects that stay, and looking at them again and again is in vain."""
    gc.disable()


def collect_what_is_new() -> None:
    """Collect again, but leave alone what start-up made, now and when the interpreter ends.

    To be called when a session has started: one that works for hours makes garbage like any program.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
        # Everything that matters is closed by then; taking the rest apart one by one only delays the shell's prompt.
        atexit.register(gc.freeze)
