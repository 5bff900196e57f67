"""What one pass over ID data remembers: a head and mergeable statistics."""
