"""The state of a bucket in Spark's state store, and its cache on the node."""
