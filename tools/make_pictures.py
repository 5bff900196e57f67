"""Make the pictures of the README and of docs/report.md from what `theodolite demo` has written.

    theodolite demo
    python tools/make_pictures.py theodolite-demo

`docs/images/triangle.png` is the demo's; `docs/images/report.png` is the top of its report, taken with
chromium. Both have few colours: as a palette they are small.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE = (1280, 1500)
COLOURS = 128


def main(folder: Path) -> None:
    _save(folder / "triangle.png", IMAGES / "triangle.png")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no chromium here: docs/images/report.png stays as it is")
    with tempfile.TemporaryDirectory() as place:
        taken = Path(place) / "report.png"
        flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        page = (folder / "report.html").resolve().as_uri()
        window = f"--window-size={SIZE[0]},{SIZE[1]}"
        subprocess.run([chromium, *flags, window, f"--screenshot={taken}", page], check=True)
        _save(taken, IMAGES / "report.png")


def _save(source: Path, target: Path) -> None:
    with Image.open(source) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
