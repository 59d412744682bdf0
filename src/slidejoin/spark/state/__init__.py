"""What a bucket keeps in Spark's state store, and its cache on the node."""
