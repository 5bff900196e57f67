"""The demo: a benchmark of a small network trained here and now on real digits, and verdicts on photos."""

from .network import NAME
from .photos import Photos, judge_photos
from .run import KNOWN, Demo, run_demo
from .table import demo_table

__all__ = ["KNOWN", "NAME", "Demo", "Photos", "demo_table", "judge_photos", "run_demo"]
