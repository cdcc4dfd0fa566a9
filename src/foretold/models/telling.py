"""What a function gives, as events of OpenAI's stream: text, chunks as they are, or a whole answer."""

from __future__ import annotations

import secrets
import time
from typing import Any

import orjson

END = object()
_DONE = b"data: [DONE]\n\n"


class NoAnswer(TypeError):
    """What came is neither text nor OpenAI's shape; it says so by types alone, so that it can be logged."""


class Telling:
    """Of one answer."""

    def __init__(self, operation: str, model: str):
        self._is_chat = operation == "chat"
        self.is_over = False
        self._has_begun = False
        self._has_finished = False
        self._head = {
            "id": ("chatcmpl-" if self._is_chat else "cmpl-") + secrets.token_hex(12),
            "object": "chat.completion.chunk" if self._is_chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def told(self, piece: Any) -> bytes:
        """The events of what came, at last of END; None is nothing.

        Raises NoAnswer for what is neither text nor OpenAI's shape.
        """
        if piece is END:
            self.is_over = True
            return self._end()
        if piece is None:
            return b""
        if isinstance(piece, str):
            return self._text(piece)
        choices = piece.get("choices") if isinstance(piece, dict) else None
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            what = "an object without choices" if isinstance(piece, dict) else f"a {type(piece).__name__}"
            raise NoAnswer(f"it gave {what}: give text, or an answer or chunk in OpenAI's shape")
        chunk = {**self._head, **piece, **self._head, "choices": [self._choice(choice) for choice in choices]}
        self._has_begun = True
        self._has_finished = self._has_finished or any(c.get("finish_reason") is not None for c in choices)
        return _event(chunk)

    def _end(self) -> bytes:
        if self._has_finished:
            return _DONE
        return (b"" if self._has_begun else self._text("")) + self._said({}, "stop") + _DONE

    def _text(self, text: str) -> bytes:
        delta = {"content": text} if self._has_begun else {"role": "assistant", "content": text}
        self._has_begun = True
        return self._said(delta if self._is_chat else {"text": text}, None)

    def _said(self, said: dict[str, Any], finish: str | None) -> bytes:
        content = {"delta": said} if self._is_chat else {"text": said.get("text", ""), "logprobs": None}
        return _event({**self._head, "choices": [{"index": 0, **content, "finish_reason": finish}]})

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        """That of a whole answer as the only chunk of one.  Raises NoAnswer where what it says is no text."""
        if not self._is_chat:
            _must_be_text(choice.get("text"), "text")
            return choice
        for name in ("message", "delta"):
            said = choice.get(name, {})
            if not isinstance(said, dict):
                raise NoAnswer(f"it gave a {type(said).__name__} as {name}: give an object with content")
            _must_be_text(said.get("content"), f"{name}.content")
        if "message" not in choice:
            return choice
        delta = dict(choice["message"])
        if isinstance(calls := delta.get("tool_calls"), list):
            delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
        rest = {name: value for name, value in choice.items() if name != "message"}
        return {"index": 0, **rest, "delta": delta, "finish_reason": choice.get("finish_reason") or "stop"}


def _must_be_text(said: Any, name: str) -> None:
    if said is not None and not isinstance(said, str):
        raise NoAnswer(f"it gave a {type(said).__name__} as {name}: give text")


def error_event() -> bytes:
    return _event({"error": {"code": 500, "type": "callable_failed"}})


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"
