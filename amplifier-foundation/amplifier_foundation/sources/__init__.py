"""Sources: what bundles and modules are loaded from, wherever it lies."""
