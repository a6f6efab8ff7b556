"""What a universe takes for the world, all in the host's process: gateway, git mirror, package index, mocks."""
