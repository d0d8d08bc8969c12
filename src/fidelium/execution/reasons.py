"""Failure reasons: whatever a simulator, a result file or a user's function does becomes a text that can be kept.

Exceptions may have a `__str__` that raises, values a `__repr__` that raises, and texts lone surrogates that neither a
file nor a database takes.
"""

from __future__ import annotations

import signal
import threading
import traceback
from pathlib import Path
from types import CodeType, FunctionType, MethodType

from fidelium.storage.serialise import bounded_reason

NO_REASON = "the program reported a failure without a reason"

_SHOWN = 80
"""Most characters of a value in a reason."""


def storable(reason: str) -> str:
    """A reason that every file and database accepts, with its length bounded; a blank one gets a text."""
    return bounded_reason(reason if reason.strip() else NO_REASON) or NO_REASON


def shown(value: object) -> str:
    """The repr of a value, cut to 80 characters."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  user code, or an integer with more than 4,300 digits
        return f"<a {type(value).__name__} that cannot be shown>"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def described(error: BaseException) -> str:
    """The error in one line, with the file and the line that raised it."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"  # names the file and the line itself
    text = "".join(traceback.format_exception_only(error)).strip()  # never fails, as str(error) can
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{text}{place}"


def may_be_interrupted() -> bool:
    """Whether Ctrl-C can raise KeyboardInterrupt here: in a main thread that does not ignore it."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C raised the error, rather than the code that was called: that must end the run.

    The frame of the signal's handler is in the traceback. The default handler of Python has none, so with it every
    KeyboardInterrupt counts as Ctrl-C.
    """
    if not isinstance(error, KeyboardInterrupt) or not may_be_interrupted():
        return False
    code = _code_of(signal.getsignal(signal.SIGINT))
    return code is None or any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: object) -> CodeType | None:
    function = handler.__func__ if isinstance(handler, MethodType) else handler
    return function.__code__ if isinstance(function, FunctionType) else None
