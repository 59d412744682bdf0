"""Job files in one process: sources, micro-batches, sinks and the checkpoint. It knows no Spark."""
