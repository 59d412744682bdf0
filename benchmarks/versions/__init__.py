"""Two checkouts of slidejoin in turns: is this one as fast as the other one? See `python -m benchmarks.versions`."""
