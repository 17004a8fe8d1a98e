"""Everything that tells of a fault, gathered into one batch and judged as a whole."""
