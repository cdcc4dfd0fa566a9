"""What an engine's stream becomes: an OpenAI transcript, one event at a time.

Progress and timings stay inside.  Every other event is written anew, because ids, fingerprint and, for text
completions, usage and log probabilities have another shape there than with OpenAI.
"""

from __future__ import annotations

from typing import Any

import orjson

from foretold.contract.events import DONE, event_of
from foretold.errors import OriginCut

_DONE = b"data: [DONE]\n\n"
# Our own kind of error, beside the engine's.
NO_CALL = "no_call"


class EngineFailed(Exception):
    """The engine's stream told an error instead of more answer; `says` is what callers are told of it in mid-answer."""

    def __init__(self, error: dict[str, Any], *, says: str = "the engine failed in mid-answer"):
        super().__init__(str(error.get("type")))
        self.error = error
        self.says = says
        code = error.get("code")
        self.status = code if isinstance(code, int) and 400 <= code <= 599 else 500


class Transcript:
    """`fingerprint` is told to callers: which engine answered, for those who set `seed`.

    The engine's own is `b0-unknown` in every build of its wheel, and would promise that nothing ever changes.
    `must_call`: an answer that ends without a call of a tool is none.  `calls_once`: callers get the first call only,
    because the engine lets a model make more, whatever it is told.
    """

    def __init__(
        self,
        operation: str,
        *,
        fingerprint: str,
        wants_json: bool = False,
        must_call: bool = False,
        calls_once: bool = False,
    ):
        self.is_done = False
        self._must_call = must_call
        self._calls_once = calls_once
        self._arguments: dict[Any, list[str]] = {}
        self._operation = operation
        self._fingerprint = fingerprint
        self._wants_json = wants_json
        self._said: list[str] = []
        self._finish: str | None = None
        self._said_characters = 0

    @property
    def is_sound(self) -> bool:
        """Whether the whole answer is what was asked for: JSON that was asked for and ended must be JSON.

        So must the arguments of calls.
        """
        if self._finish == "tool_calls":
            return all(_is_json(arguments) for arguments in self._arguments.values())
        return not self._wants_json or self._finish != "stop" or _is_json(self._said)

    def told(self, raw: bytes) -> bytes:
        """What callers get of one whole event: nothing, or whole events.

        Raises EngineFailed for an error, OriginCut for what is not the engine's to send.
        """
        try:
            data = event_of(raw).data
            if data is None:
                if raw.startswith(b"error:"):
                    data = raw.removeprefix(b"error:").decode()
                else:
                    return b""
            if data == DONE:
                self.is_done = True
                return _DONE
            chunk = orjson.loads(data)
        except ValueError:
            raise OriginCut("the engine sent an event that is not JSON") from None
        if not isinstance(chunk, dict):
            raise OriginCut("the engine sent an event that is not a JSON object")
        if "error" in chunk or raw.startswith(b"error:"):
            error = chunk.get("error", chunk)
            raise EngineFailed(error if isinstance(error, dict) else {"message": error})
        if "prompt_progress" in chunk:
            return b""
        chunk.pop("timings", None)
        if "system_fingerprint" in chunk:
            chunk["system_fingerprint"] = self._fingerprint
        if self._operation == "completion":
            return self._completion(chunk)
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta", {})
            if delta.get("tool_calls") and self._is_of_later_calls(delta) and not choice.get("finish_reason"):
                return b""
            if self._wants_json:
                self._said.append(delta.get("content") or "")
            self._finish = choice.get("finish_reason") or self._finish
        if self._must_call:
            self._look_for_call(chunk)
        return _event(chunk)

    def _is_of_later_calls(self, delta: dict[str, Any]) -> bool:
        """Whether nothing is left for callers who wanted one call."""
        if self._calls_once:
            delta["tool_calls"] = [call for call in delta["tool_calls"] if call.get("index", 0) == 0]
        for call in delta["tool_calls"]:
            self._arguments.setdefault(call.get("index", 0), []).append(call.get("function", {}).get("arguments") or "")
        if not delta["tool_calls"]:
            del delta["tool_calls"]
        return not delta

    def _look_for_call(self, chunk: dict[str, Any]) -> None:
        """Raises EngineFailed where prose ends that should have been a call: some templates let a model talk on."""
        for choice in chunk.get("choices", ()):
            if choice.get("delta", {}).get("tool_calls"):
                self._must_call = False
            elif choice.get("finish_reason") is not None:
                raise EngineFailed({"type": NO_CALL}, says="the model called no tool, though it was told to")

    def _completion(self, chunk: dict[str, Any]) -> bytes:
        """Text completions: their own kind of id, log probabilities in lists, usage in an event of its own."""
        if isinstance(identity := chunk.get("id"), str):
            chunk["id"] = "cmpl-" + identity.removeprefix("chatcmpl-")
        for choice in chunk.get("choices", ()):
            if choice.get("logprobs") is not None:
                choice["logprobs"] = self._in_lists(choice["logprobs"])
            self._said_characters += len(choice.get("text", ""))
        usage = chunk.pop("usage", None)
        told = _event(chunk)
        if usage is not None:
            told += _event({**chunk, "choices": [], "usage": usage})
        return told

    def _in_lists(self, logprobs: dict[str, Any]) -> dict[str, Any]:
        tokens = logprobs.get("content", ())
        offsets, at = [], self._said_characters
        for token in tokens:
            offsets.append(at)
            at += len(token["token"])
        return {
            "tokens": [token["token"] for token in tokens],
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [{t["token"]: t["logprob"] for t in token.get("top_logprobs", ())} for token in tokens],
            "text_offset": offsets,
        }


def failure(status: int, error: Any, *, question: str, model: str) -> tuple[int, bytes]:
    """An engine's error as OpenAI tells it: status and body, without the engine's own words.

    Those name files, templates and library faults.
    """
    error = error if isinstance(error, dict) else {}
    kind = error.get("type")
    if kind == "exceed_context_size_error":
        return 400, _error(
            f"the prompt has {_count(error, 'n_prompt_tokens')} tokens, and model {model!r} takes"
            f" {_count(error, 'n_ctx')} with its answer: shorten it",
            code="context_length_exceeded",
            param=question,
        )
    if kind == NO_CALL:
        return 500, _error(
            f"model {model!r} called no tool, though it was told to", code="engine_failed", kind="server_error"
        )
    if 400 <= status < 500 and status not in (401, 403, 404):
        return 400, _error(
            f"the engine of model {model!r} does not take this request: look at `{question}` and `response_format`",
            code="bad_value",
        )
    if status == 503:
        return 503, _error(
            f"model {model!r} cannot answer just now: ask again", code="origin_unready", kind="server_error"
        )
    return 500, _error(
        f"the engine of model {model!r} failed at this request", code="engine_failed", kind="server_error"
    )


def _count(error: dict[str, Any], name: str) -> str:
    value = error.get(name)
    return f"{value:,}" if isinstance(value, int) else "too many"


def _error(message: str, *, code: str, param: str | None = None, kind: str = "invalid_request_error") -> bytes:
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def _is_json(pieces: list[str]) -> bool:
    try:
        orjson.loads("".join(pieces))
    except orjson.JSONDecodeError:
        return False
    return True


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"
