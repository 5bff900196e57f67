"""From a model and pictures to features: capture, extraction, the store on disk."""
