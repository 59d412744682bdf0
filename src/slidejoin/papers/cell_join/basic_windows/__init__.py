"""CellJoin's window: a list of basic windows, divided among workers by shifting pointers (sections 4 and 7)."""
