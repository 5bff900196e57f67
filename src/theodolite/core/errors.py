"""The few things that can go wrong, each with a message a person can act on."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, where there is one."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


class TheodoliteError(Exception):
    """Base of all errors raised on purpose by theodolite.

    >>> try:
    ...     th.MDS().score(np.ones((1, 2)))
    ... except th.TheodoliteError as error:
    ...     print(type(error).__name__)
    NotFittedError
    """


class TheodoliteWarning(UserWarning):
    """Something that may make answers wrong, and that only the caller can judge; a command prints it."""


class CalibrationWarning(TheodoliteWarning):
    """The data that a threshold was set on may not be new to the classifier, or its scores are all alike."""


class FittingWarning(TheodoliteWarning):
    """What a score was fitted on cannot teach it what it has to learn."""


class TrainingWarning(TheodoliteWarning):
    """A network has been trained and has learnt next to nothing."""


class InputError(TheodoliteError, ValueError):
    """An argument cannot be used: the message names it, what it was and what was expected."""


class NotFittedError(TheodoliteError, RuntimeError):
    """A detector or a calibration was used before it saw in-distribution data."""


class FormatError(TheodoliteError, ValueError):
    """A file is not one of ours, or is damaged."""


class StorageError(TheodoliteError, OSError):
    """A file cannot be written; nothing that was on disk before is lost."""


class ExportError(TheodoliteError, ValueError):
    """A guard cannot be exported, or what was exported gives other verdicts and was not written."""


class MissingExtraError(TheodoliteError, ImportError):
    """An optional dependency is absent; the message is the one line that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'theodolite[{extra}]'")


class CaptureError(TheodoliteError, ValueError):
    """The features and the head of a model cannot be told apart: the message says what differs."""


class ModelError(TheodoliteError, ValueError):
    """A model cannot be built, or its weights are absent or do not fit."""


class UnreadableImageError(TheodoliteError, OSError):
    """A picture cannot be decoded; the message names it.

    The message is the first argument alone, so that the error survives the way out of a worker process.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path

    @classmethod
    def of(cls, path: str, reason: str) -> "UnreadableImageError":
        return cls(
            f"{path} cannot be read as an image ({reason}): replace or remove it, or skip such files with "
            f"--skip-unreadable",
            path,
        )


class UnreadableTextError(UnreadableImageError):
    """A text is empty or cannot be read; whether such samples are skipped is decided as for pictures."""

    @classmethod
    def of(cls, path: str, reason: str) -> "UnreadableTextError":
        return cls(
            f"{path} is no text ({reason}): mend or remove it, or skip such samples with --skip-unreadable",
            path,
        )


class WorkerError(TheodoliteError, RuntimeError):
    """A process that reads pictures has died; what was written before is kept."""
