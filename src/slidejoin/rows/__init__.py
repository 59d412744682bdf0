"""Where rows lie, and how they become Arrow again: chunks, records, text, buffers."""
