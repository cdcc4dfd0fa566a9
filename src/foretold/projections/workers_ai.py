"""A chat completion as Workers AI tells it (rule R3): `{"result": {"response": …}}` whole, events with `response`.

Of several choices the first is told.  Calls come in one piece, their arguments read; usage and how it ended stand in
the last event.
"""

from __future__ import annotations

from typing import Any

from foretold.contract.events import DONE, event_of, split
from foretold.projections import fold, verbatim
from foretold.projections.fold import NotAnAnswer

NO_SUCH_MODEL = 5007
_BAD_INPUT = 5006
_FAILED = 3043
# Workers AI's own numbers, by the status that goes with them here.
_CODES = {401: 10000, 403: 10000, 408: 3007, 413: 3006, 429: 3040, 503: 3040, 504: 3007}


def code_of(status: int) -> int:
    """The number of an error, where only its status is known."""
    return _CODES.get(status, _BAD_INPUT if status < 500 else _FAILED)


def refusal(code: int, message: str) -> bytes:
    return verbatim.written(
        {"result": None, "success": False, "errors": [{"code": code, "message": message}], "messages": []}
    )


def refused(status: int, body: bytes) -> bytes:
    """An origin's error, in its words."""
    told = verbatim.object_in(body)
    error = told.get("error") if told is not None else None
    message, code = (error.get("message"), error.get("code")) if isinstance(error, dict) else (error, None)
    if not isinstance(message, str) or not message:
        message = f"the origin answered with status {status}"
    return refusal(NO_SUCH_MODEL if code == "model_not_found" else code_of(status), message)


def whole(body: bytes) -> bytes:
    """A chat completion as one document; raises NotAnAnswer."""
    answer = verbatim.object_in(body)
    if answer is None:
        raise NotAnAnswer("the answer is not a JSON object")
    choices = fold.objects(answer.get("choices"), "choices")
    message = choices[0].get("message") if choices else None
    if not isinstance(message, dict):
        raise NotAnAnswer("a message is not an object")
    result: dict[str, Any] = {"response": _text(message.get("content"))}
    result |= _ending(message.get("tool_calls"), choices[0].get("finish_reason"), answer.get("usage"))
    return verbatim.written({"result": result, "success": True, "errors": [], "messages": []})


def transcript(body: bytes) -> bytes:
    """A chat's transcript as the events of Workers AI; raises NotAnAnswer or UnicodeDecodeError."""
    retelling = Retelling()
    events, rest = split(body)
    return b"".join(retelling.told(event.raw) for event in events) + (b"" if retelling.is_done else rest)


class Retelling:
    """One stream, event by event."""

    def __init__(self) -> None:
        self.is_done = False
        self._message: dict[str, Any] = {}
        self._finish: Any = None
        self._usage: Any = None

    def told(self, raw: bytes) -> bytes:
        """What an event becomes: nothing, or whole events.  Raises NotAnAnswer or UnicodeDecodeError."""
        data = event_of(raw).data
        if data is None:
            return raw
        if self.is_done:
            return b""
        if data == DONE:
            self.is_done = True
            return self._last() + b"data: [DONE]\n\n"
        chunk = verbatim.object_in(data)
        if chunk is None:
            raise NotAnAnswer("an event is not a JSON object")
        if chunk.get("error") is not None:
            return _event_of(refused(502, data.encode()))
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        texts = [self._piece(choice) for choice in fold.objects(chunk.get("choices", []), "choices")]
        return b"".join(_event({"response": text}) for text in texts if text)

    def _piece(self, choice: dict[str, Any]) -> str:
        if choice.get("index", 0) not in (0, None):
            return ""
        delta = choice.get("delta", {})
        if not isinstance(delta, dict):
            raise NotAnAnswer("a delta is not an object")
        if choice.get("finish_reason") is not None:
            self._finish = choice["finish_reason"]
        if delta.get("tool_calls") is not None:
            fold.merge(self._message, {"tool_calls": delta["tool_calls"]})
        return _text(delta.get("content")) or ""

    def _last(self) -> bytes:
        calls = fold.grown(self._message).get("tool_calls")
        return _event({"response": ""} | _ending(calls, self._finish, self._usage))


def broken(message: str) -> bytes:
    """The event that ends a stream which broke off."""
    return _event_of(refusal(_FAILED, message))


def _ending(calls: Any, finish: Any, usage: Any) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if isinstance(calls, list) and calls:
        told["tool_calls"] = [_call(call) for call in fold.without_positions(fold.objects(calls, "tool_calls"))]
    if finish is not None:
        told["finish_reason"] = finish
    if usage is not None:
        told["usage"] = usage
    return told


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """Name and arguments; those are an object where they can be read as one."""
    function = call.get("function")
    if not isinstance(function, dict):
        raise NotAnAnswer("a call without a function")
    arguments = function.get("arguments")
    if isinstance(arguments, str) and (read := verbatim.object_in(_encoded(arguments))) is not None:
        arguments = read
    return {"name": function.get("name"), "arguments": arguments}


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise NotAnAnswer("a content is not a text")
    return value


def _event(value: dict[str, Any]) -> bytes:
    return _event_of(verbatim.written(value))


def _event_of(json: bytes) -> bytes:
    return b"data: " + json + b"\n\n"
