"""What a model can be asked, from its header alone."""

from __future__ import annotations

import pytest

from foretold.errors import ConfigError
from foretold.models.library.abilities import capabilities, embeds, uses_tools
from foretold.models.library.gguf import BadGguf, read_header
from tests.fakes.tiny_models import CHATML, WITH_TOOLS
from tests.library.gguf_file import LLAMA, gguf

BERT = {"general.architecture": "bert", "bert.pooling_type": 1}
BARE = {name: value for name, value in LLAMA.items() if name != "tokenizer.chat_template"}


def header(values):
    content = gguf(values)
    return read_header(content, len(content))


def able(values, *, template=None, said=()):
    return sorted(capabilities(header(values), chat_template=template, said=said))


def with_template(text, name="tokenizer.chat_template"):
    return LLAMA | {name: text}


@pytest.mark.parametrize(
    "template",
    [
        WITH_TOOLS,
        "{% if tools %}{{ tools | tojson }}{% endif %}",
        "{%- if tools is defined and tools is not none -%}x{%- endif -%}",
        "{{ tools }}",
        "{% for tool in tools %}{{ tool }}{% endfor %}",
        "{% set available = tools %}{{ available }}",
        "{% if tools == none %}x{% else %}{{ tools }}{% endif %}",
        "{{ '{#' }}{{ tools }}",
    ],
)
def test_a_template_that_reads_tools_uses_them(template):
    assert uses_tools(template)


@pytest.mark.parametrize(
    "template",
    [
        "",
        CHATML,
        "You have tools. {{ messages }}",
        "{# if tools #}{{ messages }}",
        "{{ 'no tools here' }}",
        '{{ "it\\"s tools" }}',
        "{{ message.tools }}",
        "{% set tools = none %}{{ messages }}",
        "{{ my_tools }}{{ toolset }}{{ tools_in }}",
    ],
)
def test_a_template_that_only_speaks_of_tools_does_not(template):
    assert not uses_tools(template)


def test_a_model_can_what_its_template_says():
    assert able(BARE) == ["completion"]
    assert able(with_template(CHATML)) == ["chat", "completion"]
    assert able(with_template(WITH_TOOLS)) == ["chat", "completion", "tools"]
    assert able(with_template(CHATML) | {"tokenizer.chat_template.tool_use": WITH_TOOLS})[-1] == "tools"


def test_a_template_that_is_given_counts_instead_of_its_own():
    assert able(with_template(CHATML), template=WITH_TOOLS) == ["chat", "completion", "tools"]
    assert able(with_template(WITH_TOOLS), template=CHATML) == ["chat", "completion"]
    assert able(BARE, template=CHATML) == ["chat", "completion"]


@pytest.mark.parametrize("pooling", [1, 2, 3])
def test_a_model_whose_header_pools_makes_vectors_and_nothing_else(pooling):
    assert able(BERT | {"bert.pooling_type": pooling}) == ["embedding"]
    assert able(LLAMA | {"llama.pooling_type": pooling}) == ["embedding"]
    assert able(LLAMA | {"llama.pooling_type": 0}) == ["chat", "completion"]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"general.architecture": "bert"}, "convert it anew"),
        ({"general.architecture": "nomic-bert"}, "convert it anew"),
        (BERT | {"bert.pooling_type": 0}, "convert it anew"),
        (BERT | {"bert.pooling_type": 4}, "ranks texts"),
        (LLAMA | {"llama.pooling_type": 9}, "not known"),
    ],
)
def test_vectors_that_nobody_knows_how_to_make_are_refused(values, why):
    with pytest.raises(BadGguf, match=why):
        embeds(header(values))


@pytest.mark.parametrize(
    ("values", "said", "why"),
    [
        (LLAMA, ["telepathy"], "known are chat, completion, embedding, tools"),
        (LLAMA, ["chat", "tools"], "has no `tools`"),
        (with_template(WITH_TOOLS), ["tools"], "give the capability 'chat' too"),
        (LLAMA, ["embedding"], "no way to make one vector"),
        (BERT, ["chat"], "makes vectors only"),
    ],
)
def test_what_a_model_cannot_do_nobody_can_say_of_it(values, said, why):
    with pytest.raises(ConfigError, match=why):
        able(values, said=said)


def test_whoever_pushes_it_may_say_less():
    assert able(with_template(WITH_TOOLS), said=["chat"]) == ["chat"]
