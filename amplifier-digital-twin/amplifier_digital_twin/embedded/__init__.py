"""Universes in namespaces of our own: no daemon, no engine, bubblewrap for the walls."""
