"""Libraries for applications on the kernel: bundles, sources, session store, log and spawn live here."""

__version__ = "3.0.0"
