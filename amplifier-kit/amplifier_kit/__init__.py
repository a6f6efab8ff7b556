"""Stateless helpers that several module authors share; imports the kernel and nothing further out."""

__version__ = "3.0.0"
