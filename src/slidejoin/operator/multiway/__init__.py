"""The operator of joins of many streams: windows with an index for each link, and chains of probes."""
