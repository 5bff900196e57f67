"""What a run chose by itself, and how long each part of its start took."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

_PROCESS = Path("/proc/self/stat")
# Of a line of /proc/PID/stat after the name: when the process began, in ticks since the machine did.
_BEGAN = 19


@dataclass
class RunLog:
    """Written by a run that it was given to (``Running(log=…)``), read by whoever gave it.

    ``readers``, ``layout`` and ``compiled`` say in words what reads the pictures, how they lie in memory and
    whether the model was compiled; empty as long as no picture went through the model. ``parts`` are the
    parts of the start up to the first result, in the order they took place, in seconds.
    """

    readers: str = ""
    layout: str = ""
    compiled: str = ""
    parts: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic, repr=False)

    def lap(self, part: str) -> None:
        """A part of the start has ended now; only the first of each name counts."""
        now = time.monotonic()
        if part not in self.parts:
            self.parts[part] = now - self.began
        self.began = now

    @property
    def chosen(self) -> list[str]:
        """What was chosen, in words."""
        return [words for words in (self.readers, self.layout, self.compiled) if words]


def since_process_began() -> float:
    """Seconds that this process has been running; 0 where the system does not tell."""
    try:
        ticks = int(_PROCESS.read_text().rpartition(")")[2].split()[_BEGAN])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError, IndexError):
        return 0.0
