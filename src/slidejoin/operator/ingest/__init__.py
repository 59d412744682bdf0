"""From batches to rows in arrival order; late rows are left out."""
