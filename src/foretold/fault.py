"""Errors on their way from one process of a node to another."""

from __future__ import annotations

import msgspec

from foretold import errors
from foretold.errors import ForetoldError, Refused


class Fault(msgspec.Struct, frozen=True):
    kind: str
    message: str
    param: str | None = None
    code: str | None = None
    status: int | None = None


def fault_of(error: ForetoldError) -> Fault:
    kind = type(error).__name__
    if isinstance(error, Refused):
        return Fault(kind, str(error), error.param, error.code_here, error.status_here)
    return Fault(kind, str(error))


def error_of(fault: Fault) -> ForetoldError:
    """The error as it was raised there; one that only that process knows becomes what it is at least."""
    kind = getattr(errors, fault.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, ForetoldError)) or kind is errors.Told:
        return ForetoldError(fault.message)
    if issubclass(kind, Refused):
        return kind(fault.message, param=fault.param, code=fault.code, status=fault.status)
    return kind(fault.message)
