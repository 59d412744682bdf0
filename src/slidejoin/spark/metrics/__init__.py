"""Figures of each bucket, and their way to the driver."""
