"""The documentation site: pages gathered from docs/ and results/, others made from the code, then built."""
