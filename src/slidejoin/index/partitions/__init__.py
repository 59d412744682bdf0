"""PanJoin's partitioned subwindows: RaP-Table and WiB+-tree."""
