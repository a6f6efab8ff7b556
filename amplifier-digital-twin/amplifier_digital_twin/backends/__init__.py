"""Where universes run: namespaces of our own, or a container engine that is there."""
