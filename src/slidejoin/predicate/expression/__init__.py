"""The expression as written: a small tree, built from Python or SQL, written as text and JSON."""
