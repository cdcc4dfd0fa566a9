"""`foretold ask`"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator

import click

from foretold.cli.client import node_url, request
from foretold.cli.completion import model_names
from foretold.cli.settings import json_option, url_option
from foretold.errors import Told


@click.command("ask", short_help="Ask once, stream the answer, say miss or hit and how long.")
@click.argument("model", shell_complete=model_names)
@click.argument("prompt", required=False)
@url_option
@click.option("--max-tokens", type=click.IntRange(min=1), help="The longest answer.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="0 for the likeliest answer.")
@click.option("--no-cache", is_flag=True, help="Ask the model again and keep its new answer.")
@json_option
def command(
    model: str,
    prompt: str | None,
    url: str | None,
    max_tokens: int | None,
    temperature: float | None,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Asks MODEL once and streams the answer; PROMPT from stdin where it isn't given.

    FORETOLD_KEY is sent as the API key.

    \b
    Examples:
      foretold ask smollm2-135m "Why is the sky blue?"
      echo "Summarise this." | foretold ask smollm2-135m
      foretold ask smollm2-135m "Name a colour." --no-cache --json
    """
    if prompt is None:
        if sys.stdin.isatty():
            raise click.UsageError("give a PROMPT, or send one on stdin")
        prompt = sys.stdin.read()
    if not prompt.strip():
        raise click.UsageError("the PROMPT is empty")
    asked: dict[str, object] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": not as_json,
    }
    if max_tokens is not None:
        asked["max_tokens"] = max_tokens
    if temperature is not None:
        asked["temperature"] = temperature
    headers = {"content-type": "application/json"}
    if no_cache:
        headers["cache-control"] = "no-cache"
    if key := os.environ.get("FORETOLD_KEY"):
        headers["authorization"] = f"Bearer {key}"

    began_s = time.monotonic()
    response = request(node_url(url), "POST", "/v1/chat/completions", headers=headers, body=json.dumps(asked).encode())
    if response.status != 200:
        raise _failed(response.status, response.read())
    if as_json:
        answer = json.loads(response.read())
        status, took_ms = response.headers["cache-status"], round((time.monotonic() - began_s) * 1000, 3)
        click.echo(json.dumps({"cache_status": status, "took_ms": took_ms, "answer": answer}))
        return
    for text in _texts(response):
        click.echo(text, nl=False)
    took_s = time.monotonic() - began_s
    how = "hit" if "; hit" in response.headers["cache-status"] else "miss"
    took = f"{took_s * 1000:.1f} ms" if took_s < 1 else f"{took_s:.2f} s"
    click.echo()
    click.echo(f"{how} · {took} · {response.headers['cache-status']}", err=True)


def _texts(response: Iterable[bytes]) -> Iterator[str]:
    for line in response:
        told = line.decode().strip().removeprefix("data:").strip()
        if not line.startswith(b"data:") or told == "[DONE]":
            continue
        chunk = json.loads(told)
        if "error" in chunk:
            raise Told(chunk["error"]["message"], code=str(chunk["error"].get("code")), status=502)
        for choice in chunk.get("choices", ()):
            yield choice.get("delta", {}).get("content") or ""


def _failed(status: int, body: bytes) -> Told:
    try:
        error = json.loads(body)["error"]
        message, code = str(error["message"]), str(error.get("code") or f"http_{status}")
    except (ValueError, KeyError, TypeError):
        message, code = f"the node answered {status}", f"http_{status}"
    return Told(f"{message} (FORETOLD_KEY)" if status == 401 else message, code=code, status=status)
