"""What a universe is to be: the profile, its files and its variables."""
