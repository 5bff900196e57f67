"""`python -m theodolite` is the `theodolite` command."""

from .cli import main

main()
