"""A scripted session for tests of loops, and the conformance suite that every loop inherits."""
