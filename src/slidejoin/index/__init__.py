"""The indexes over the stored rows of one side: one module for each index structure of the papers."""
