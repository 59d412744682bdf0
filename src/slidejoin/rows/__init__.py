"""Row storage: chunks, records, text, buffers, and the way back to Arrow."""
