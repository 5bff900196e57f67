"""`python -m theodolite`."""

from .cli import main

main()
