"""Ready-made guards, shipped as data: see `docs/guard.md` for how each was made."""
