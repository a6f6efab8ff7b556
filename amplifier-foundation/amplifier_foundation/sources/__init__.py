"""Sources: where bundles and modules are loaded from."""
