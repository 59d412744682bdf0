"""The operator: one push, from arrival to output."""
