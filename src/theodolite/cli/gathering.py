"""From what was named on the command line to the subjects of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from PIL import Image
from rich.console import Console
from rich.text import Text

from ..benchmarks.protocols import Protocol
from ..benchmarks.subject import Extraction, Subject, from_folder
from ..core.errors import InputError
from ..data import ImageSource, as_picture
from ..features.settings import Running
from ._progress import progress_bar

_FEATURES = "features:"


class Gatherer:
    """Opens feature folders, and extracts the features of models with a progress bar."""

    def __init__(
        self,
        protocol: Protocol | None,
        cache: Path,
        root: Path | None,
        running: Running,
        batch_size: int | None,
        console: Console,
    ) -> None:
        self.protocol = protocol
        self.cache = cache
        self.root = root
        self.running = running
        self.batch_size = batch_size
        self.console = console
        self._sources: dict[str, ImageSource | None] = {}

    def gather(self, specs: Sequence[str], weights: Mapping[str, Path]) -> list[Subject]:
        """One subject a spec, in order."""
        unused = sorted(set(weights) - set(specs))
        if unused:
            raise InputError(
                f"--weights names {unused[0]!r}, which is none of the models: {', '.join(specs)}"
            )
        return [self._subject(spec, weights.get(spec)) for spec in specs]

    def picture(self, name: str, row: int) -> Image.Image | None:
        """The picture of a sample, where its data set is here; rows of a store without gaps are samples."""
        if self.protocol is None or self.running.skip_unreadable:
            return None
        if name not in self._sources:
            part = next((part for part in self.protocol.parts if part.name == name), None)
            self._sources[name] = None if part is None else part.open(self.root)
        source = self._sources[name]
        return None if source is None else as_picture(source[row].image)

    def _subject(self, spec: str, weights: Path | None) -> Subject:
        if spec.startswith(_FEATURES):
            return from_folder(spec.removeprefix(_FEATURES))
        if self.protocol is None:
            raise InputError(
                f"{spec}: a feature folder can only be joined by others, --model features:FOLDER"
            )
        with progress_bar(self.console, spec) as show:
            extraction = Extraction(
                self.protocol,
                self.cache,
                self.root,
                running=self.running,
                batch_size=self.batch_size,
                say=lambda text: self.console.print(Text(f"{spec}, {text}"), soft_wrap=True),
                progress=lambda _name, done, total: show(done, total),
            )
            try:
                return extraction.subject(spec, weights)
            except KeyboardInterrupt:
                Console(stderr=True).print(
                    f"stopped: complete shards of {spec} are kept. Run the same command again to go on.",
                    highlight=False,
                    soft_wrap=True,
                )
                raise typer.Exit(130) from None
