"""Container engines behind one small interface: podman, docker and incus."""
