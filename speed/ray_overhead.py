"""Ray against the local engine on the same cores, and the memory of the process that sends the work off.

    python speed/ray_overhead.py [overhead] [memory] [--pictures 10000]

*overhead*: features of pictures under EfficientNet-Lite0, extracted by either engine from the same files,
from their listing. Ray is started before: a cluster is there already. *memory*: a fit and verdicts
on a feature store of N rows and of 10 N, each in a process of its own, whose peak counts. Exit code 1 if a
bound is broken.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

import theodolite as th
from end_to_end_speed import make_pictures
from theodolite.features.engine import RayEngine
from theodolite.features.manifest import Recipe
from theodolite.features.ray_cluster import cluster
from theodolite.features.writer import Rows, StoreWriter
from theodolite.report.ray_scores import score_on_ray
from timing import report

# A fit's account of its samples is full at 2²⁰ of them, and what is held out at 100,000: N is past both.
PICTURES, ROWS, WIDTH, CLASSES, SHARD = 10_000, 2**20, 8, 10, 2**14
LITE = "lite:efficientnet-lite0"


def overhead(folder: Path, pictures: int) -> bool:
    """Seconds of both, the local engine first: what it reads is in the page cache for both, once listed."""
    make_pictures(folder / "pictures", pictures)
    taken = {}
    with cluster(RayEngine()):
        for name, engine in (("local", None), ("ray", RayEngine())):
            start = time.perf_counter()
            settings = th.ExtractionSettings(running=th.Running(engine=engine))
            store = th.extract(folder / "pictures", LITE, output=folder / name, settings=settings)
            taken[name] = time.perf_counter() - start
            report(f"extract of {pictures:,} pictures, EfficientNet-Lite0, {name}", taken[name], "s")
            print(f"    {store.manifest.layout}")
    return report("Ray / local engine, the same cores", taken["ray"] / taken["local"], "×", limit=1.3)


def made_store(folder: Path, rows: int) -> Path:
    """A store of clusters, and the head that tells them apart best."""
    generator = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn(CLASSES, WIDTH, generator=generator)
    head = th.Head(centres, -centres.square().sum(dim=1) / 2)
    recipe = Recipe("made:up", "0", "none", "fc", str(rows), rows)
    writer = StoreWriter.open(folder, recipe, head, source="made", shard_rows=SHARD)
    for index in range(writer.manifest.shards_needed):
        names = [f"{index}-{row}" for row in range(len(writer.samples(index)))]
        labels = torch.randint(CLASSES, (len(names),), generator=generator)
        noise = torch.randn(len(names), WIDTH, generator=generator)
        features = centres[labels] + noise
        writer.write(index, Rows([features], labels.tolist(), names))
    return folder


def drive(store: Path, folder: Path) -> None:
    """In a process of its own: a fit and verdicts on Ray, then the peak of this process, in MiB."""
    warnings.simplefilter("ignore")
    settings = th.ExtractionSettings(running=th.Running(engine="ray"))
    with cluster(RayEngine()):
        guard = th.fit_guard(store, detector="mds", settings=settings).guard
        score_on_ray(guard, store, folder / f"{store.name}.parquet")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def memory(folder: Path, _: int) -> bool:
    peaks = []
    for rows in (ROWS, 10 * ROWS):
        store = made_store(folder / str(rows), rows)
        command = [sys.executable, __file__, "--drive", str(store), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout.split()[-1]))
    report(f"peak memory of the driver, fit and score of {ROWS:,} rows", peaks[0], "MiB")
    return report(f"growth to {10 * ROWS:,} rows", peaks[1] - peaks[0], "MiB", limit=32)


SECTIONS = {"memory": memory, "overhead": overhead}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS])
    parser.add_argument("--pictures", type=int, default=PICTURES)
    parser.add_argument("--drive", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drive:
        drive(*asked.drive)
        return 0
    with tempfile.TemporaryDirectory() as made:
        met = [SECTIONS[name](Path(made), asked.pictures) for name in asked.sections or SECTIONS]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
