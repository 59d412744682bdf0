"""What driver and executors share: the pickled join, session checks, strategies."""
