"""How well scores tell ID from OOD."""
