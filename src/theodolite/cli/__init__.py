"""The commands, one file each: they read options, call the library and print.

They import what they need when they run, so that `--help` stays quick.
"""
