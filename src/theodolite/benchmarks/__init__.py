"""Protocols, published numbers and the runner that puts measured values next to them."""
