"""Texts to vectors: what a local model is asked, and what its answers must be."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from foretold.errors import Malformed, OriginError, Refused
from foretold.models.manifest import SMOLLM2
from foretold.origins import embedding
from foretold.origins.embedding import MOST_IN_A_CALL, Part, parts, refusal, vectors

MODEL = replace(SMOLLM2, name="mini", capabilities=frozenset({"embedding"}), context=512)
ONE = Part(0, ("a",), 1)
TWO = Part(3, ("a", "b"), 2)


def wanted(value, **members):
    return embedding.wanted(orjson.dumps({"input": value, **members}), MODEL)


def said(*rows, **members) -> bytes:
    data = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
    return orjson.dumps({"data": data, "usage": {"prompt_tokens": 5}} | members)


@pytest.mark.parametrize(
    ("value", "inputs"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ([1, 2],)),
        ([[1, 2], [3]], ([1, 2], [3])),
    ],
)
def test_all_four_forms_of_input_are_taken(value, inputs):
    assert wanted(value).inputs == inputs


def test_what_only_says_who_asks_and_in_which_form_counts_for_nothing():
    assert wanted("a", model="x", user="me", encoding_format="base64", dimensions=None) == wanted("a")


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("", "input"),
        ([], "input"),
        (7, "input"),
        ({}, "input"),
        (True, "input"),
        (["a", ""], "input[1]"),
        (["a", 1], "input[0]"),
        (["a", [1]], "input[0]"),
        ([[1], "a"], "input[1]"),
        ([[]], "input[0]"),
        ([-1], "input[0]"),
        ([2**31], "input[0]"),
        ([[1.5]], "input[0]"),
        ([[1], [True]], "input[1]"),
        (["a"] * 2049, "input"),
        ([[1]] * 2049, "input"),
    ],
)
def test_other_inputs_are_refused_by_their_place(value, param):
    with pytest.raises(Refused) as refused:
        wanted(value)

    assert (refused.value.status_here, refused.value.param) == (400, param)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"dimensions": 0}, "bad_value"),
        ({"dimensions": "64"}, "bad_value"),
        ({"encoding_format": "int8"}, "bad_value"),
        ({"truncate": True}, "unknown_field"),
        ({"input": None}, "missing_field"),
    ],
)
def test_other_members_are_refused(members, code):
    with pytest.raises(Refused) as refused:
        embedding.wanted(orjson.dumps({"input": "a"} | members), MODEL)

    assert refused.value.code_here == code


def test_a_body_that_is_no_object_is_malformed():
    with pytest.raises(Malformed):
        embedding.wanted(b"[]", MODEL)


def test_more_tokens_than_the_model_takes_are_refused_with_both_numbers():
    with pytest.raises(Refused, match=r"input\[1\]` has 513 tokens, and model 'mini' takes 512") as refused:
        wanted([[1], [1] * 513])

    assert refused.value.code_here == "context_length_exceeded"
    assert wanted([1] * 512).inputs == ([1] * 512,)


def test_a_text_that_no_tokens_can_hold_is_refused_before_it_is_sent():
    with pytest.raises(Refused, match="32,769 characters"):
        wanted("x" * (512 * 64 + 1))


def test_many_inputs_are_cut_into_calls_of_a_few_in_order():
    inputs = tuple(f"text {at}" for at in range(20))

    cut = list(parts(inputs, context=512))

    assert tuple(one for part in cut for one in part.inputs) == inputs
    assert [part.first for part in cut] == [0, 8, 16]
    assert all(len(part.inputs) <= MOST_IN_A_CALL for part in cut)


def test_a_call_costs_no_more_than_the_longest_single_input_may():
    long = [1] * 300

    cut = list(parts(("a", long, long, "b"), context=512))

    assert [part.inputs for part in cut] == [("a", long), (long, "b")]
    assert list(parts(("x" * 100_000, "b"), context=512))[0].inputs == ("x" * 100_000,)


def test_vectors_are_those_of_the_inputs_in_their_order():
    answer = orjson.loads(said([1.0, 0.0], [0.5, 0.5]))
    answer["data"].reverse()

    assert vectors(orjson.dumps(answer), TWO) == ([[1.0, 0.0], [0.5, 0.5]], 5)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no json",
        b"[]",
        b"{}",
        said([1.0]),
        said([1.0], [1.0], [1.0]),
        said([1.0, 2.0], [1.0]),
        said([], []),
        said([1.0, None], [1.0, 2.0]),
        said([1.0, "2"], [1.0, 2.0]),
        said([0.0, 0.0], [1.0, 2.0]),
        said("ab", "cd"),
        said([1.0], [1.0], usage=None),
        said([1.0], [1.0], data=[{"index": 0, "embedding": [1.0]}] * 2),
        b'{"data":[{"index":0,"embedding":[NaN]},{"index":1,"embedding":[1]}],"usage":{"prompt_tokens":1}}',
        b'{"data":[{"index":0,"embedding":[1e999]},{"index":1,"embedding":[1.0]}],"usage":{"prompt_tokens":1}}',
    ],
)
def test_anything_but_one_whole_vector_for_each_input_is_an_error(answer):
    with pytest.raises(OriginError, match="one vector"):
        vectors(answer, TWO)


def test_a_length_that_the_model_does_not_give_is_refused():
    with pytest.raises(Refused, match="wanted is 2 for model 'mini'"):
        embedding.check_dimensions(wanted("a", dimensions=3), [[1.0, 0.0]], model="mini")
    embedding.check_dimensions(wanted("a", dimensions=2), [[1.0, 0.0]], model="mini")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            {"code": 500, "message": "input (513 tokens) is too large to process. increase the physical batch size"},
            "input[0] has 513 tokens, and model 'mini' takes 512: shorten it",
        ),
        (
            {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 600, "n_ctx": 512},
            "input[0] has 600 tokens, and model 'mini' takes 512: shorten it",
        ),
        (
            {"code": 400, "message": "Prompt contains invalid tokens"},
            "input[0] has a token number that model 'mini' does not know",
        ),
        ({"code": 400, "message": "at /some/file"}, "the engine of model 'mini' does not take input[0]"),
    ],
)
def test_what_the_engine_does_not_take_is_told_without_its_own_words(error, told):
    assert str(refusal(error, ONE, MODEL)) == told


def test_of_several_inputs_it_is_told_among_which_the_wrong_one_is():
    assert "one of input[3] to input[4] has" in str(refusal({"n_prompt_tokens": 9}, TWO, MODEL))


@pytest.mark.parametrize("error", [{}, None, {"code": 503}, {"code": 500, "message": "ggml failed"}])
def test_a_fault_of_the_engines_is_nobodys_refusal(error):
    assert refusal(error, ONE, MODEL) is None
