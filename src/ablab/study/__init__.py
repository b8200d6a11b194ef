"""Studies: from a command to cells, from cells to runs in the pool, from runs to outcomes."""
