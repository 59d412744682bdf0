"""Metrics of each bucket, and their transport to the driver."""
