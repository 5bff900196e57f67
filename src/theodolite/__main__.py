"""`python -m theodolite`."""

from .cli.app import main

main()
