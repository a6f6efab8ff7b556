"""The `amplifier` program."""

__version__ = "3.0.0"
