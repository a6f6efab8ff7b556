"""Ask the user for approval of what a session is about to do."""
