"""What the engine refuses, as exceptions.

Each has ``code`` (``"INVALID_ARGUMENT"`` and so on, as in the JSON records of ``quire generate``) and
``remedy``, what to do about it. Each is also the built-in exception that fits, so that
``except ValueError`` catches a parameter that is out of range.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "BadModelError",
    "CancelledError",
    "ConfigError",
    "GenerationInterrupted",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "NotFoundError",
    "QuireError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnimplementedError",
]


class QuireError(Exception):
    """What all of them are. ``str()`` gives the message and the remedy in one line."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[QuireError], tuple[str, str]]:
        return type(self), (self.message, self.remedy)


class InvalidArgumentError(QuireError, ValueError):
    """The caller's input breaks a rule."""

    code = "INVALID_ARGUMENT"


class BadModelError(QuireError, ValueError):
    """A model's file or folder is broken or inconsistent."""

    code = "BAD_MODEL"


class NotFoundError(QuireError, FileNotFoundError):
    """A file, a model or a request is not there."""

    code = "NOT_FOUND"


class UnimplementedError(QuireError, NotImplementedError):
    """Something known that Quire does not have."""

    code = "UNIMPLEMENTED"


class ResourceExhaustedError(QuireError, MemoryError):
    """A limit or the memory does not allow it."""

    code = "RESOURCE_EXHAUSTED"


class IoError(QuireError, OSError):
    """The system refused to read or write."""

    code = "IO_ERROR"


class ConfigError(QuireError, ValueError):
    """Settings that contradict each other or the model."""

    code = "CONFIG"


class UnavailableError(QuireError, RuntimeError):
    """The engine is closed, or belongs to another process."""

    code = "UNAVAILABLE"


class CancelledError(QuireError):
    """Interrupted."""

    code = "CANCELLED"


class InternalError(QuireError, RuntimeError):
    """A bug in Quire."""

    code = "INTERNAL"


class GenerationInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a call for many prompts.

    ``outputs`` has one entry for each prompt, in their order: what was finished as it is, what was
    running with the text so far and the finish reason ``"abort"``, and None for what had not begun.
    """

    def __init__(self, outputs: list[Any]) -> None:
        done = sum(1 for each in outputs if each is not None and not each.aborted)
        super().__init__(f"{done} of {len(outputs)} requests were finished; they are in .outputs")
        self.outputs = outputs


_BY_CODE: dict[str, type[QuireError]] = {
    each.code: each
    for each in (
        InvalidArgumentError,
        BadModelError,
        NotFoundError,
        UnimplementedError,
        ResourceExhaustedError,
        IoError,
        ConfigError,
        UnavailableError,
        CancelledError,
        InternalError,
    )
}


def from_status(code: str, message: str, remedy: str) -> QuireError:
    """The exception that stands for an error of the engine."""
    return _BY_CODE.get(code, InternalError)(message, remedy)
