"""What can go wrong, and whose fault it is.

    ForetoldError
    ├── ConfigError              the settings are not valid
    ├── Refused                  the caller asked for something we do not do (4xx)
    │   ├── Ambiguous            a request that two servers could read in two ways
    │   ├── Malformed            the body is not what its dialect promises
    │   ├── BadControl           a caching control that cannot be read
    │   ├── BadCredential        none, a wrong one, or two different ones
    │   ├── ForeignRequest       a Host or an Origin that is not ours
    │   ├── NotFound             no such path, model or record
    │   ├── TooLarge             body or head over its limit
    │   └── NotKept              only-if-cached, and it is not
    ├── Overloaded               a limit of ours is reached; later is better
    ├── RecordCorrupt            bytes that are not a whole, sealed record
    ├── StoreError               a store failed
    ├── OriginError              an origin gave no answer
    │   ├── OriginUnreachable    nothing was sent
    │   ├── OriginTimeout        sent, and no answer in time
    │   ├── OriginCut            the answer broke off
    │   │   └── LeaderLost       the process that fetched it for all did not go on
    │   ├── OriginUnready        the origin says or shows that it cannot serve now
    │   └── OriginBusy           more wait for the origin already than it lets
    ├── OriginReplaced           the model got another revision before it was asked: the query starts anew
    ├── ModelError               a local model is missing, damaged or will not load
    ├── LibraryError             a library of models failed, or holds what it must not
    │   ├── LibraryForbidden     its store refuses the credentials
    │   ├── LibraryUnreachable   its store gives no answer, or none that holds
    │   ├── NotInLibrary         no such model, revision or file there
    │   └── Untrusted            a manifest that neither a digest nor a signature vouches for
    ├── NodeError                the command line could not reach a node
    ├── DeployError              an account of Cloudflare refused something, or isn't as it must be
    │   ├── DeployTaken          what the deployment needs belongs to somebody else there
    │   ├── DeployForbidden      the token is wrong, or may not do what is needed
    │   └── DeployUnreachable    no answer from Cloudflare's API
    └── Told                     a node answered the command line with an error

`status` is what HTTP callers get, `code` is stable and part of the API, `retryable` says whether asking again can help.
Messages say what was found, what was wanted and what to do; never a body or a credential.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

E = TypeVar("E", bound=BaseException)


class ForetoldError(Exception):
    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    # Whether it is told again, to a caller who came within a moment of the one it first happened to (rule L1).
    is_echo = False


class ConfigError(ForetoldError):
    status = 422
    code = "config_invalid"
    exit_code = 3


class Refused(ForetoldError):
    """The caller's fault; `param` names the offending field, `code` may be narrower than the class's."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int | None = None):
        super().__init__(message)
        self.param = param
        self.code_here = code or type(self).code
        self.status_here = status or type(self).status


class Ambiguous(Refused):
    """The connection ends with the answer: where the next request begins can't be known."""

    code = "bad_framing"


class Malformed(Refused):
    code = "malformed_body"


class BadControl(Refused):
    code = "bad_control"


class BadCredential(Refused):
    status = 401
    code = "bad_credential"


class ForeignRequest(Refused):
    status = 403
    code = "foreign_request"


class NotFound(Refused):
    status = 404
    code = "not_found"
    exit_code = 6


class TooLarge(Refused):
    status = 413
    code = "too_large"


class NotKept(Refused):
    """Rule C1: only-if-cached, and no usable record."""

    status = 504
    code = "not_kept"


class Overloaded(Refused):
    status = 503
    code = "overloaded"
    retryable = True


class RecordCorrupt(ForetoldError):
    code = "record_corrupt"


class StoreError(ForetoldError):
    code = "store_failed"


class OriginError(ForetoldError):
    status = 502
    code = "origin_failed"
    retryable = True


class OriginUnreachable(OriginError):
    code = "origin_unreachable"


class OriginTimeout(OriginError):
    status = 504
    code = "origin_timeout"


class OriginCut(OriginError):
    code = "origin_cut"


class LeaderLost(OriginCut):
    """`alone` says that to ask it, or who comes after it, once more is of no use: whoever still can flies by itself."""

    def __init__(self, message: str, *, alone: bool = False):
        super().__init__(message)
        self.alone = alone


class NotShared(LeaderLost):
    """One call was made for several queries, and its answer is of no use to who asked only some of them.

    `of` is the call, where it is known.
    """

    def __init__(self, message: str, *, of: Any = None):
        super().__init__(message, alone=True)
        self.of = of


class OriginUnready(OriginError):
    status = 503
    code = "origin_unready"


class OriginBusy(OriginError):
    status = 429
    code = "model_busy"


class OriginReplaced(ForetoldError):
    """Nothing was sent.  No other origin is asked instead: the same query has another key now."""

    status = 503
    code = "model_replaced"
    retryable = True


class ModelError(ForetoldError):
    status = 503
    code = "model_failed"


class LibraryError(ForetoldError):
    status = 503
    code = "library_failed"


class LibraryForbidden(LibraryError):
    code = "library_forbidden"
    exit_code = 4


class LibraryUnreachable(LibraryError):
    code = "library_unreachable"
    retryable = True
    exit_code = 5


class NotInLibrary(LibraryError):
    code = "not_in_library"
    exit_code = 6


class Untrusted(LibraryError):
    code = "model_untrusted"


class NodeError(ForetoldError):
    code = "node_unreachable"
    exit_code = 5


class EdgeError(ForetoldError):
    """The edge on this machine, or a push to an edge's KV, can't be done."""

    code = "edge_failed"


class DeployError(ForetoldError):
    status = 502
    code = "deploy_failed"


class DeployTaken(DeployError):
    code = "deploy_taken"
    exit_code = 7


class DeployForbidden(DeployError):
    code = "deploy_forbidden"
    exit_code = 4


class DeployUnreachable(DeployError):
    code = "deploy_unreachable"
    retryable = True
    exit_code = 5


class Told(ForetoldError):
    """What a node said, in its own words and under its own code."""

    def __init__(self, message: str, *, code: str, status: int):
        super().__init__(message)
        self.code_here = code
        self.exit_here = {400: 2, 401: 4, 404: 6}.get(status, 1)


def without_traces(error: E) -> E:
    """The error without the frames that it and its causes went through: those hold all they knew, and often the error."""
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        link = chain.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            link.__traceback__ = None
            chain += link.__cause__, link.__context__
    return error
