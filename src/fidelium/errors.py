"""The one tree of errors: every error fidelium raises on purpose is a `FideliumError`.

Each leaf also inherits the builtin a caller would expect (`ValueError`, `RuntimeError`), and each message says what was
expected, what came and what to do.
"""


class FideliumError(Exception):
    """Base of all errors raised by fidelium."""

    setting: str | None = None
    """The argument of a study's definition that is wrong, where that is known."""


class SpaceError(FideliumError, ValueError):
    """A parameter, a search space or a set of parameter values is not valid."""


class FidelityError(FideliumError, ValueError):
    """A fidelity or a ladder of fidelities is not valid, or a fidelity's name is unknown."""


class UnknownNameError(FideliumError, ValueError):
    """A name (strategy, problem, direction, ...) is not one of the known ones."""


class SettingError(FideliumError, ValueError):
    """A setting of a study, strategy or surrogate is out of its range."""


class BudgetError(FideliumError, ValueError):
    """A budget is not a positive number that buys at least one query."""


class NotWorthwhileError(FideliumError, RuntimeError):
    """The strategy expects less of its best query than was asked for."""


class TrialError(FideliumError, RuntimeError):
    """A trial is unknown to the study, or already finished."""


class ObservationError(FideliumError, ValueError):
    """A value told to a study is not a number it can learn from."""


class NoDataError(FideliumError, RuntimeError):
    """There is no observation to answer from yet."""


class ObjectiveError(FideliumError, RuntimeError):
    """The objective failed too many times in a row for the study to go on."""


class StorageError(FideliumError, RuntimeError):
    """A storage cannot be opened, read or written, or something cannot be stored in it."""


class StudyExistsError(StorageError):
    """There is a study of this name already."""


class ConfigError(FideliumError, ValueError):
    """A file of settings is not valid; the message names the file, the line and the key."""


class EvaluationError(FideliumError, RuntimeError):
    """An evaluation failed; the message becomes the trial's reason."""
