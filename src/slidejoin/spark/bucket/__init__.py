"""The executor side: the join of one bucket in one micro-batch."""
