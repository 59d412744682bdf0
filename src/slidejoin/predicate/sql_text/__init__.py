"""SQL text to expressions."""
