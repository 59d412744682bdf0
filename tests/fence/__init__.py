"""What has to stay as it is while the inside changes: states that were written before, and plans of joins."""
