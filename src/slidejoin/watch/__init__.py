"""The figures of a running join, and who shows them: an endpoint, a live page, a terminal, a report."""
