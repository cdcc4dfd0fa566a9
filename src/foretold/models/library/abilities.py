"""What a model can do, as its header tells: answer chats, call tools, or turn texts into vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from foretold.errors import ConfigError
from foretold.models.library.gguf import BadGguf, Header

KNOWN = ("chat", "completion", "embedding", "tools")
# How an engine makes one vector of many, by the number that a header gives; 0 is none, 4 ranks texts instead.
_POOLS = {1: "mean", 2: "cls", 3: "last"}
_NONE, _RANKS = 0, 4
# They write no text.
_ENCODERS = frozenset(
    {"bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "modern-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
     "gemma-embedding"}
)  # fmt: skip
_TEMPLATES = ("tokenizer.chat_template", "tokenizer.chat_template.tool_use")
# Of Jinja: comments, whole, and what stands between the marks of code.
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_TEXTS = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
# The variable itself: no member of another, no name of an argument, and not only set.
_TOOLS = re.compile(r"(?<![\w.])tools(?!\w)(?!\s*=(?!=))")


def embeds(header: Header) -> bool:
    """Whether it turns texts into vectors and writes none.  Raises BadGguf for one that can't be asked for vectors."""
    pooling = header.own("pooling_type")
    if pooling == _RANKS:
        raise BadGguf("it ranks texts, which nobody can ask for here yet")
    if header.architecture in _ENCODERS and pooling not in _POOLS:
        raise BadGguf(
            f"its header has no {header.architecture}.pooling_type, so nobody knows how it makes one vector of a text:"
            " convert it anew with one"
        )
    if pooling is not None and pooling != _NONE and pooling not in _POOLS:
        raise BadGguf(f"its {header.architecture}.pooling_type is {str(pooling)[:20]}, which is not known here")
    return pooling in _POOLS


def is_encoder(header: Header) -> bool:
    """Whether each token sees the whole text, so that nothing is kept of those before."""
    return header.architecture in _ENCODERS or header.own("attention.causal") is False


def uses_tools(template: str) -> bool:
    """Whether a chat template reads the tools of a request."""
    codes = _CODE.findall(_COMMENT.sub("", template))
    return any(_TOOLS.search(_TEXTS.sub("''", code)) for code in codes)


def capabilities(header: Header, *, chat_template: str | None, said: Iterable[str]) -> frozenset[str]:
    """What it can be asked, `said` instead where whoever pushes it says so.

    Raises ConfigError for what it can't do, whoever says it.
    """
    wanted = frozenset(said)
    if unknown := wanted - set(KNOWN):
        raise ConfigError(f"there is no capability {min(unknown)!r}: known are {', '.join(KNOWN)}")
    can = _found(header, chat_template)
    if "embedding" in can and wanted - {"embedding"}:
        raise ConfigError(f"it makes vectors only: it has no capability {min(wanted - {'embedding'})!r}")
    if "embedding" in wanted - can:
        raise ConfigError("its header gives no way to make one vector of a text: it has no capability 'embedding'")
    if "tools" in wanted - can:
        raise ConfigError(
            "its chat template has no `tools`, so a model would never hear of them: give another template"
        )
    if "tools" in wanted and "chat" not in wanted:
        raise ConfigError("tools are called in chats: give the capability 'chat' too")
    return wanted or can


def _found(header: Header, chat_template: str | None) -> frozenset[str]:
    if embeds(header):
        return frozenset({"embedding"})
    # One that is given is the only one that the engine uses.
    templates = [chat_template] if chat_template is not None else [header.values.get(name) for name in _TEMPLATES]
    texts = [template for template in templates if template]
    if not texts:
        return frozenset({"completion"})
    knows_tools = any(isinstance(template, str) and uses_tools(template) for template in texts)
    return frozenset({"chat", "completion"} | ({"tools"} if knows_tools else set()))
