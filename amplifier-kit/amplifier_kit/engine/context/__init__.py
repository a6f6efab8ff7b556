"""What context managers share: a ledger that is kept whole, and views of it that fit the model."""
