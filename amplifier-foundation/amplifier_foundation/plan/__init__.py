"""From bundle and settings to the parts of a session: compose, fetch, check, lock, and record for resume."""
