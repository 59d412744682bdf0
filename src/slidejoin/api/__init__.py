"""The join as users of the embedded library see it."""
