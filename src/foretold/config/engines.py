"""What the settings of a model must be together: each engine has its own, and none of another's."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from foretold.config.models import ModelSettings
from foretold.config.settings import Config
from foretold.errors import ConfigError

Fail = Callable[[tuple[str | int, ...], str], ConfigError]

_DEFAULTS = {f.name: f.default for f in dataclasses.fields(ModelSettings)}
_OF_OWN = ("environment", "memory", "capabilities", "languages")
_OF = {
    "gguf": ("source", "threads", "kv", "sleep"),
    "command": ("command", "ready", *_OF_OWN),
    "python": ("callable", "path", *_OF_OWN),
}
_PLACES = frozenset({"{port}", "{socket}"})
_DIGEST = re.compile("[0-9a-f]{64}")


def check_models(config: Config, fail: Fail) -> None:
    """Raises ConfigError."""
    for model in config.models:
        place = ("models", model.name)
        if model.reproducible and (model.parallel or 1) > 1:
            raise fail((*place, "parallel"), "a reproducible model makes one answer at a time: leave it out, or set 1")
        foreign = next((name for name in _foreign(model) if getattr(model, name) != _DEFAULTS[name]), None)
        if foreign is not None:
            engines = " and ".join(engine for engine, names in _OF.items() if foreign in names)
            raise fail((*place, foreign), f"engine {model.engine!r} has none: it belongs to {engines}")
        if 0 < model.sleep < 1:
            raise fail((*place, "sleep"), 'give at least "1 s", or "0 s" for never')
        if 0 <= model.keep_alive <= model.sleep != 0:
            raise fail((*place, "sleep"), "it is unloaded before it sleeps: give less than `keep_alive`")
        if model.engine != "gguf":
            _check_own(model, place, fail)
        elif model.is_bundled:
            if model.revision or model.model:
                which = "revision" if model.revision else "model"
                raise fail((*place, which), "the bundled model has none: it says which model of a library is meant")
        else:
            _check_of_a_library(model, config, place, fail)


def _foreign(model: ModelSettings) -> list[str]:
    own = _OF[model.engine]
    return [name for names in _OF.values() for name in names if name not in own]


def _check_of_a_library(model: ModelSettings, config: Config, place: tuple[str, str], fail: Fail) -> None:
    if model.revision and not _DIGEST.fullmatch(model.revision):
        raise fail(
            (*place, "revision"),
            f"is {model.revision[:80]!r}: give the revision of a manifest, 64 hex digits: `foretold models show` tells it",
        )
    if not model.revision and not config.library.trusted:
        raise fail(
            place,
            f"who vouches for it? set `revision`, which `foretold models show {model.model or model.name}"
            f" {model.source}` tells, or library.trusted to the keys of those who may sign",
        )


def _check_own(model: ModelSettings, place: tuple[str, str], fail: Fail) -> None:
    wanted = {
        "command": "the program that answers, and its arguments",
        "callable": "the function that answers, such as `module:function`",
        "revision": "what you call this very model: it is part of every key, so that another one is asked anew",
        "memory": "what it takes at most, so that the pool knows its room",
        "context": "the tokens of prompt and answer together",
    }
    other = "callable" if model.engine == "command" else "command"
    missing = next((name for name in wanted if name != other and not getattr(model, name)), None)
    if missing is not None:
        raise fail(place, f"`{missing}` is missing: {wanted[missing]}")
    if model.engine == "python":
        return
    found = {name for word in model.command for name in re.findall(r"{[a-z_]*}", word) if name in _PLACES}
    if len(found) != 1:
        raise fail(
            (*place, "command"),
            "where is it to listen? let one of its arguments be {port}, a port of loopback, or {socket}, a unix socket",
        )
    if model.ready and not model.ready.startswith("/"):
        raise fail((*place, "ready"), f"is {model.ready[:80]!r}: give a path, such as /health")
