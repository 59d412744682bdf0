"""What runs for one bucket and micro-batch on an executor."""
