"""One push, from arrival to output."""
