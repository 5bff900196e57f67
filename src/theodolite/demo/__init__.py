"""The demo: a benchmark of a small network trained here and now on real digits, and verdicts on photos."""

from .photos import Photos, judge_photos
from .run import Demo, run_demo

__all__ = ["Demo", "Photos", "judge_photos", "run_demo"]
