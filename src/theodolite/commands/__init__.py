"""The commands of `theodolite`, one a file."""
