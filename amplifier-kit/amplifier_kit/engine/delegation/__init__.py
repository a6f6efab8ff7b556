"""The base of tools that delegate work to child sessions."""
