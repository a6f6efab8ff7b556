"""The Amplifier kernel."""
