"""The commands of `amplifier`, one file per group."""
