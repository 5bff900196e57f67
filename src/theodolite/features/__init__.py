"""From models to features: capture them, keep them on disk, read them back as a stream."""
