"""What driver and executors share: the join as it is sent, session checks, strategies."""
