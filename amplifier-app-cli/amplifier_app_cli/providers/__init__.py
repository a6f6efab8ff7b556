"""Providers as the program knows them: which there are, which one a run uses, and how they are set up."""
