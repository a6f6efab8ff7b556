"""The commands of `amplifier-digital-twin`, one file each."""
