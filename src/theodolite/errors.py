"""The few things that can go wrong, each with a message a person can act on."""


class TheodoliteError(Exception):
    """Base of all errors raised on purpose by theodolite."""


class InputError(TheodoliteError, ValueError):
    """An argument cannot be used: the message names it, what it was and what was expected."""


class NotFittedError(TheodoliteError, RuntimeError):
    """A detector or a calibration was used before it saw in-distribution data."""


class FormatError(TheodoliteError, ValueError):
    """A file is not one of ours, or is damaged."""


class StorageError(TheodoliteError, OSError):
    """A file cannot be written; nothing that was on disk before is lost."""


class MissingExtraError(TheodoliteError, ImportError):
    """An optional dependency is absent; the message is the one line that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'theodolite[{extra}]'")
