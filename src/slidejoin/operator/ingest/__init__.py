"""Ingest: from batches to rows in arrival order, without late rows."""
