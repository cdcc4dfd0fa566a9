"""`POST /ai/run/{model}`: a text model asked and answered as Workers AI is, by the records of the equal chat (rule R3)."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import orjson

from foretold.contract.controls import Controls
from foretold.dialects.body import read_body
from foretold.dialects.openai import OpenAI
from foretold.dialects.paths import segments_of
from foretold.errors import ForetoldError, Malformed, Refused
from foretold.flights.forwarding import from_raw_members, raw_members
from foretold.ports import Asked, Request
from foretold.projections import workers_ai

PROJECTION = "workers-ai"
_CHAT = OpenAI("chat", "/chat/completions")
# Cloudflare's clients write the account before it; and the slashes of a model's name as they are, or as escapes.
_PATH = re.compile(r"/+(?:client/+v4/+)?(?:accounts/+[^/]+/+)?ai/+run/+(?P<model>.*[^/].*)")
_OTHER_TASKS = ("text", "image", "audio", "input", "inputs", "requests", "contexts", "query")


def model_in(path: str) -> str | None:
    """The model that a raw path runs; None for other paths.  Raises Refused for an odd one."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    segments_of(path[: found.start("model")])
    return "/".join(segments_of(re.sub("%2[Ff]", "/", found["model"])))


class WorkersAI:
    def read(self, request: Request, body: bytes, controls: Controls) -> Asked:
        read = read_body(body)
        if not isinstance(read.value, dict):
            raise Malformed("the body must be a JSON object")
        asked = _CHAT.read(request, _as_chat(raw_members(body), model_in(request.path) or ""), controls)
        if read.unkeyable is not None:
            asked = msgspec.structs.replace(asked, passes=read.unkeyable, input=None)
        # Usage is told where there is some; nobody waits for another answer because a record has none.
        return msgspec.structs.replace(asked, usage=not asked.streamed, projection=PROJECTION)

    def tell(self, error: ForetoldError) -> tuple[str, bytes]:
        if not isinstance(error, Refused):
            code = workers_ai.code_of(error.status)
        elif error.code_here == "model_not_found":
            code = workers_ai.NO_SUCH_MODEL
        else:
            code = workers_ai.code_of(error.status_here)
        return "application/json", workers_ai.refusal(code, str(error))


def _as_chat(members: dict[str, bytes], model: str) -> bytes:
    """The chat that asks the same; each member it shares keeps its bytes."""
    told = {name: raw for name, raw in members.items() if raw != b"null"}
    _check(told)
    told.pop("raw", None)
    told["model"] = orjson.dumps(model)
    if "prompt" in told:
        prompt = told.pop("prompt")
        told["messages"] = b'[{"role":"user","content":' + prompt + b"}]"
    if "tools" in told:
        told["tools"] = _tools(told["tools"])
    return from_raw_members(told)


def _check(members: dict[str, bytes]) -> None:
    """Raises Refused for what a chat can't ask."""
    if "prompt" in members and "messages" in members:
        raise Refused("give `prompt` or `messages`, not both", param="prompt", code="bad_value")
    if "prompt" not in members and "messages" not in members:
        task = next((name for name in _OTHER_TASKS if name in members), None)
        more = "" if task is None else f"; `{task}` asks for another task, which has no place here"
        raise Refused(
            f"text generation is what this node runs: give `prompt` or `messages`{more}",
            param=task or "prompt",
            code="missing_field",
        )
    if "prompt" in members and (not members["prompt"].startswith(b'"') or members["prompt"] == b'""'):
        raise Refused("`prompt` must be a text that is not empty", param="prompt", code="bad_value")
    if members.get("raw", b"false") != b"false":
        raise Refused("`raw` asks for no chat template: ask /v1/completions", param="raw", code="bad_value")
    if "lora" in members:
        raise Refused("`lora` has no place here: name the tuned model itself", param="lora", code="bad_value")
    if members.get("n", b"1") != b"1":
        raise Refused("`n` must be 1: there is room for one answer here", param="n", code="bad_value")


def _tools(raw: bytes) -> bytes:
    """Tools as OpenAI has them; Workers AI also takes functions bare."""
    try:
        tools: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw  # a lone surrogate: it has no key, and goes out as it came
    if not isinstance(tools, list) or not any(_is_bare(tool) for tool in tools):
        return raw
    return orjson.dumps([{"type": "function", "function": tool} if _is_bare(tool) else tool for tool in tools])


def _is_bare(tool: Any) -> bool:
    return isinstance(tool, dict) and "name" in tool and "function" not in tool and "type" not in tool
