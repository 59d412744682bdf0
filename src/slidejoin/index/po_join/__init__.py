"""SPO-Join's structure and its baselines: two terms of a predicate are answered at once."""
