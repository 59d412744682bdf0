"""Kernels of records: rows in row format, all columns of a row side by side."""
