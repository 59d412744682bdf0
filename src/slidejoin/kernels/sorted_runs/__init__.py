"""Sorted runs."""
