"""The garbage collector, out of the way while the program starts."""

import atexit
import gc

from amplifier_app_cli.collector import collect_nothing, collect_what_is_new


def test_collecting_starts_again() -> None:
    """Nothing is collected in between; afterwards new garbage is, and what was there before is left alone."""
    try:
        collect_nothing()
        assert not gc.isenabled()
        collect_what_is_new()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
        atexit.unregister(gc.freeze)
