"""What every room stands on: arrays, errors, files, places."""
