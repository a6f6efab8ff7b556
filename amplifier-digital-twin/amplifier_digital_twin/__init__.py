"""End-to-end environments for Amplifier."""

__version__ = "3.0.0"
