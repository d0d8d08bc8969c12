"""The error hierarchy: every error that fidelium raises deliberately is a `FideliumError`.

Each class also inherits the fitting builtin (`ValueError`, `RuntimeError`). A message says what was expected, what was
got and what to do.
"""


class FideliumError(Exception):
    """Base of all errors raised by fidelium."""

    setting: str | None = None
    """The invalid argument of a `StudyDefinition`, None if unknown."""


class SpaceError(FideliumError, ValueError):
    """A parameter, a search space or a set of parameter values is invalid."""


class FidelityError(FideliumError, ValueError):
    """A fidelity or a ladder of fidelities is invalid, or the name of a fidelity is unknown."""


class UnknownNameError(FideliumError, ValueError):
    """The name of a strategy, problem, direction, ... is unknown."""


class SettingError(FideliumError, ValueError):
    """A setting of a study, strategy or surrogate is invalid."""


class BudgetError(FideliumError, ValueError):
    """A budget is not a positive number, or below the cost of the cheapest query."""


class NotWorthwhileError(FideliumError, RuntimeError):
    """The expected gain per cost of the best query is below the required minimum."""


class TrialError(FideliumError, RuntimeError):
    """A trial does not belong to the study, or has already finished."""


class ObservationError(FideliumError, ValueError):
    """An observed value is not a finite number."""


class NoDataError(FideliumError, RuntimeError):
    """The study has no observations yet."""


class ObjectiveError(FideliumError, RuntimeError):
    """The objective failed too many times in a row."""


class StorageError(FideliumError, RuntimeError):
    """A storage cannot be opened, read or written, or cannot store a value."""


class StorageUnavailableError(StorageError):
    """A storage cannot be used now, but may be later: its server is away, its disk is full, others keep it busy."""


class UnsureError(StorageUnavailableError):
    """The connection to a storage was lost while writing: the change may be stored or not."""


class StudyExistsError(StorageError):
    """A study of this name already exists."""


class ConfigError(FideliumError, ValueError):
    """A configuration file is invalid; the message names the file, the line and the key."""


class EvaluationError(FideliumError, RuntimeError):
    """An evaluation failed; the message becomes the reason of the failed trial."""

    cost: float | None = None
    """What it cost, as the evaluation reports it; None if it does not."""


class UnreadableResultError(EvaluationError):
    """The program exited with 0, but the result rule found nothing: no such file, match, column or path.

    While no trial at its fidelity has a value, the rule itself is probably wrong.
    """

    folder: str | None = None
    """The trial's folder, None if unknown."""


class SetupError(FideliumError, RuntimeError):
    """The set-up of a study is wrong or its machine is unfit, whatever the design: a missing program, a full disk.

    The trial is queued again and costs nothing more; the run stops with this message, which says what to do.
    """
