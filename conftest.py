"""Settings that every test run shares."""

import os

from hypothesis import settings

# No deadline: a deadline is a timed assertion, and machines are noisy. CI repeats the same examples every time; a
# developer's machine explores new ones.
settings.register_profile("amplifier", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.load_profile("amplifier")
