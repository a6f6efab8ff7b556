"""What tools share that hand work to child sessions."""
