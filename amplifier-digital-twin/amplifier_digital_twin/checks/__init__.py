"""What a universe is made for: checks that look at it from outside, each with an outcome and evidence."""
