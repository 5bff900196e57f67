"""Words to be held against the names of the classes, for a score that asks for them (NegLabel)."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InputError
from ..detectors import Detector, NegLabel
from ..features.word_files import embed_words, require_words_of
from .choice import choose_detector
from .fit_data import KnownData
from .provenance import Provenance


def choose_for_words(
    detector: Detector | str | None, negatives: str | Path | None, shaping: str | None = None
) -> Detector:
    """The score that was asked for, NegLabel where only words were given; words and a score of words come
    together, which is known before any picture is read."""
    words = negatives is not None
    chosen = choose_detector("neglabel" if words and detector is None else detector, shaping)
    if not isinstance(chosen, NegLabel):
        if words:
            raise InputError(
                f"--negatives is for NegLabel, and {chosen.record.title} takes no words: --detector neglabel"
            )
        return chosen
    if words and chosen.negatives is not None:
        raise InputError("--negatives is given, and the detector names its words as well: leave one out")
    if not words and chosen.negatives is None:
        raise InputError(
            "NegLabel has no words to hold against the names of classes: --negatives words.txt, one a line"
        )
    return chosen


def with_negatives(detector: Detector, negatives: str | Path | None, known: KnownData) -> Detector:
    """The detector with the embeddings of its words, made by the model of the features that are known."""
    if not isinstance(detector, NegLabel):
        return detector
    if known.provenance is None:
        if negatives is not None:
            raise InputError(
                "--negatives needs the model that embeds the words, and features in files have none: embed "
                "them with `theodolite embed`, and name the file: --detector neglabel?negatives=FILE"
            )
        return detector
    if negatives is None:
        require_own_words(detector, known.provenance)
        return detector
    model, head = known.provenance.model, known.fit.head
    if head is None or not head.unit_features:
        raise InputError(f"NegLabel needs class names, and {model} has a linear head: ?classes=names.txt")
    file = embed_words(negatives, model, weights=known.provenance.weights_file, head=head)
    options = {**detector.options(), "negatives": str(file)}
    return type(detector)(**options)  # type: ignore[arg-type]


def require_own_words(detector: Detector, provenance: Provenance | None, *, here: bool = True) -> None:
    """Refuse a score of words that another model embedded than that of the features, where it is known.

    The file must be there, unless the fit, which reads it, is elsewhere (``here=False``).
    """
    if not isinstance(detector, NegLabel) or detector.negatives is None or provenance is None:
        return
    if here or Path(detector.negatives).expanduser().is_file():
        require_words_of(detector.negatives, provenance.model, provenance.weights_file)
