"""Sessions that another session has started: what they do while they run, and what their logs say later."""
