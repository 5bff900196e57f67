"""From JPEGs to features and verdicts, against the bare model on tensors that are in memory already.

    python speed/end_to_end_speed.py [start] [memory] [lite0] [resnet]

The bound is against the bare model as a script runs it, in the default layout and in the one that the run
chose. It is also compared with the bare model where memory that is freed stays with the process, as a run has
it; that has no bound: on two cores the decoder takes its share of both. Exit code 1 if a bound is broken.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from skimage import data
from torch import nn

import theodolite as th
from theodolite.core.compat import import_torchvision
from theodolite.core.memory import kept
from theodolite.data import open_source
from theodolite.features import RunLog, fill_store
from theodolite.models import LoadedModel, load_model
from timing import report

PICTURES, MADE, BATCH = 512, 64, 64
LAYOUTS = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}


def make_pictures(folder: Path, count: int) -> None:
    """JPEGs of about 500 × 375 from real pictures; each of a few is there under many names."""
    rng = np.random.default_rng(0)
    names = ("astronaut", "chelsea", "coffee")
    whole = [Image.fromarray(getattr(data, name)()) for name in names]
    folder.mkdir()
    for index in range(count):
        if index >= MADE:
            (folder / f"{index:05d}.jpg").hardlink_to(folder / f"{index % MADE:05d}.jpg")
            continue
        picture = whole[index % len(whole)]
        width, height = (int(side * rng.uniform(0.6, 1)) for side in picture.size)
        left = int(rng.integers(0, picture.width - width + 1))
        top = int(rng.integers(0, picture.height - height + 1))
        size = (500 + int(rng.integers(-20, 20)), 375 + int(rng.integers(-20, 20)))
        picture.crop((left, top, left + width, top + height)).resize(size).save(
            folder / f"{index:05d}.jpg", quality=90
        )


def bare(model: nn.Module, layout: str, *, keep: bool = False) -> float:
    """Images a second of the model alone, in inference mode, after a warm-up."""
    model.eval().to(memory_format=LAYOUTS[layout])  # type: ignore[call-overload]
    images = torch.randn(BATCH, 3, 224, 224).contiguous(memory_format=LAYOUTS[layout])
    with torch.inference_mode(), kept() if keep else nullcontext():
        model(images if keep else images[:8])
        start = time.perf_counter()
        model(images)
        seconds = time.perf_counter() - start
    model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return BATCH / seconds


def resnet50(folder: Path) -> LoadedModel:
    """torchvision's, with random weights."""
    import_torchvision()
    from torchvision import models

    torch.manual_seed(0)
    torch.save(models.resnet50().state_dict(), folder / "resnet50.pt")
    return load_model("torchvision:resnet50/IMAGENET1K_V1", weights=folder / "resnet50.pt")


def rate(work: Callable[[RunLog], int]) -> tuple[float, RunLog]:
    """Images a second from the first file opened to the last result, with all that was measured meanwhile."""
    log, start = RunLog(), time.perf_counter()
    return work(log) / (time.perf_counter() - start), log


def compare(name: str, model: nn.Module, works: dict[str, Callable[[RunLog], int]]) -> bool:
    plain = {layout: bare(model, layout) for layout in LAYOUTS}
    keeping = {layout: bare(model, layout, keep=True) for layout in LAYOUTS}
    for layout in LAYOUTS:
        report(f"{name}: bare, {layout}", plain[layout], "images/s")
        report(f"{name}: bare, {layout}, memory kept", keeping[layout], "images/s")
    met = True
    for title, work in works.items():
        found, log = rate(work)
        chosen = "channels last" if log.layout.startswith("channels last") else "contiguous"
        print(f"    {'; '.join(log.chosen)}")
        report(f"{name}: {title}", found, "images/s")
        for layout, words in (("contiguous", "default"), (chosen, "same")):
            line = f"{name}: {title} / bare, {words} layout"
            met &= report(line, found / plain[layout], "×", limit=0.9, at_least=True)
        report(f"{name}: {title} / bare, same layout, memory kept", found / keeping[chosen], "×")
    return met


def lite0(folder: Path, pictures: Path) -> bool:
    guard = th.Guard.load("imagenet-lite0")
    loaded = load_model("lite0")

    def scored(log: RunLog) -> int:
        return sum(map(len, guard.score_paths(pictures, running=th.Running(log=log))))

    def extracted(log: RunLog) -> int:
        settings = th.ExtractionSettings(running=th.Running(log=log))
        return len(fill_store(loaded, open_source(pictures), folder / "lite0", settings=settings))

    return compare("EfficientNet-Lite0", loaded.model, {"extract": extracted, "score": scored})


def resnet(folder: Path, pictures: Path) -> bool:
    loaded = resnet50(folder)

    def extracted(log: RunLog) -> int:
        settings = th.ExtractionSettings(running=th.Running(log=log))
        return len(fill_store(loaded, open_source(pictures), folder / "resnet", settings=settings))

    return compare("ResNet-50", loaded.model, {"extract": extracted})


def start(folder: Path, pictures: Path) -> bool:
    """The parts of the start of the command, as it says them itself."""
    few = folder / "few"
    few.mkdir()
    for path in sorted(pictures.iterdir())[:8]:
        (few / path.name).hardlink_to(path)
    command = (sys.executable, "-m", "theodolite", "score", "imagenet-lite0", str(few), "--timings")
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report("theodolite score on 8 pictures, from start to end", time.perf_counter() - begun, "s")
    print("    " + next(line for line in done.stdout.splitlines() if line.startswith("start-up")))
    return True


def memory(_: Path, pictures: Path) -> bool:
    """Peak memory of `score` on a part of the folder, then on all of it, which has the pictures once more."""
    guard = th.Guard.load("imagenet-lite0")
    peaks = []
    for limit in (PICTURES // 4, PICTURES):
        rows = guard.score_paths(pictures, limit=limit, running=th.Running(batch_size=16, channels_last=True))
        for _row in chain.from_iterable(rows):
            pass
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    report(f"peak memory of score on {PICTURES // 4} pictures", peaks[0], "MiB")
    return report(f"growth to {PICTURES} pictures", peaks[1] - peaks[0], "MiB", limit=32)


SECTIONS = {"start": start, "memory": memory, "lite0": lite0, "resnet": resnet}


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        make_pictures(Path(made) / "pictures", PICTURES)
        sections = [SECTIONS[name] for name in sys.argv[1:] or SECTIONS]
        met = [section(Path(made), Path(made) / "pictures") for section in sections]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
