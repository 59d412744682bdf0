"""Indexes of tables at rest: built once, of all rows."""
