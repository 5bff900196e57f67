"""A detector with its head and its calibration, ready to give verdicts."""
