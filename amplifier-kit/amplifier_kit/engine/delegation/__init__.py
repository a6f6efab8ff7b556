"""Delegation to child sessions: the request for a child, its run, and the base class of tools that delegate."""
