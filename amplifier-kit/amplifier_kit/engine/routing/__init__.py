"""Models by role: matrices say which models fit a role (`matrix.py`), a resolver picks one that is there."""
