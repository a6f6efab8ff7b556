"""Profiles: what a universe is made of, what it is for, and how files that describe one are read."""
