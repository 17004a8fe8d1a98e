"""Pure builders of child objects; instance profiles are data."""
