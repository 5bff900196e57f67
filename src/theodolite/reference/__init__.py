"""What one pass over ID data remembers: a head and mergeable statistics."""

from .head import Head
from .reference import Reference
from .statistics import Needs

__all__ = ["Head", "Needs", "Reference"]
