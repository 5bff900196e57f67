"""The demo: a small network trained here and now on real digits, and every score against real outliers."""
