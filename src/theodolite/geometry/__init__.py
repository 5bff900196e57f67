"""The triangle of ORA and what is measured in it: pure mathematics on tensors."""
