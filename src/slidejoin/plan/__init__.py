"""The plan, made before the first row: terms, cells, the window as a term, the output schema."""
