from __future__ import annotations

import json
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretold.contract import float32
from foretold.projections import embedding
from foretold.projections.embedding import Unsplit, in_form, joined, piece_of, split
from foretold.projections.fold import NotAnAnswer
from tests.fakes.vectors import embeddings

FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20)
TEXTS = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=8, unique=True)


def body_of(inputs: list[str], form: str = "float") -> bytes:
    return json.dumps(embeddings({"model": "m", "input": inputs, "encoding_format": form})).encode()


def one_by_one(inputs: list[str], form: str = "float") -> list[bytes]:
    return split(body_of(inputs, form), [len(text.encode()) for text in inputs])


@given(FLOATS)
def test_floats_told_as_numbers_and_read_again_are_the_same_bits(floats):
    content = array("f", floats).tobytes()

    assert float32.of_numbers(json.loads(float32.as_numbers(content))) == content
    assert float32.of_base64(float32.as_base64(content)) == content


@given(FLOATS)
def test_no_decimal_of_fewer_digits_is_the_float(floats):
    content = array("f", floats).tobytes()

    for told, x in zip(json.loads(float32.as_numbers(content), parse_float=str, parse_int=str), floats, strict=True):
        digits = len(told.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0"))
        if digits > 1:
            assert array("f", [float(f"{x:.{digits - 1}g}")])[0] != x


@given(st.lists(st.floats(min_value=-3e38, max_value=3e38), min_size=1, max_size=20))
def test_numbers_told_as_base64_are_the_nearest_floats(numbers):
    assert list(array("f", float32.of_numbers(numbers))) == list(array("f", numbers))


@given(TEXTS, st.sampled_from(embedding.FORMS), st.sampled_from(embedding.FORMS))
def test_an_answer_taken_apart_and_put_together_is_itself(inputs, came, wanted):
    pieces = [piece_of(one, wanted) for one in one_by_one(inputs, came)]

    assert json.loads(joined(pieces)) == json.loads(body_of(inputs, wanted))


@given(st.data())
def test_whatever_was_asked_before_the_answer_is_the_same_but_for_usage(data):
    inputs = data.draw(TEXTS)
    before = data.draw(st.lists(st.lists(st.sampled_from(inputs), min_size=1, unique=True), max_size=3))
    kept: dict[str, bytes] = {}
    for asked in [*before, inputs]:
        new = [text for text in asked if text not in kept]
        kept |= dict(zip(new, one_by_one(new), strict=True)) if new else {}
    asked = data.draw(st.lists(st.sampled_from(inputs), min_size=1))

    told = json.loads(joined([piece_of(kept[text], "float") for text in asked]))

    uncached = json.loads(body_of(asked))
    assert told | {"usage": None} == uncached | {"usage": None}


@given(st.integers(0, 10**9), st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_shares_add_up_and_a_longer_input_has_no_less(total, weights):
    told = embedding.shares({"n": total, "in": {"m": total}, "cost": 0.5}, weights)

    assert told is not None
    assert sum(share["n"] for share in told) == total
    assert embedding.added(told) == {"n": total, "in": {"m": total}}
    for place, weight in enumerate(weights):
        assert abs(told[place]["n"] - total * weight / sum(weights)) < 1


def test_of_equal_remainders_the_first_input_gets_more():
    assert [share["n"] for share in embedding.shares({"n": 5}, [1, 1, 1]) or ()] == [2, 2, 1]


def test_numbers_and_members_keep_their_text_and_their_order():
    body = b"""{"x": 1.0, "data": [ {"embedding": [1.50, -0, 1e-07], "n": 12345678901234567890, "index": 1},
        {"index": 0, "embedding": [2, 3.0, 4]} ], "usage": {"total_tokens": 4}, "model": "m\\u00e4"}"""

    first, second = split(body, [1, 1])

    assert second.decode() == (
        '{"x":1.0,"data":[{"embedding":[1.50,-0,1e-07],"n":12345678901234567890,"index":0}],'
        '"usage":{"total_tokens":2},"model":"mä"}'
    )
    assert first.startswith(b'{"x":1.0,"data":[{"index":0,"embedding":[2,3.0,4]}],')
    told = joined([piece_of(second, "float"), piece_of(first, "float")])
    assert told.startswith(
        b'{"x":1.0,"data":[{"embedding":[1.50,-0,1e-07],"n":12345678901234567890,"index":0},{"index":1,'
    )


def test_an_answer_in_the_form_asked_for_keeps_its_bytes():
    body = body_of(["a", "b"])

    assert in_form(body, "float") is body


def test_usage_is_told_where_every_part_tells_some():
    told = json.loads(one_by_one(["a"])[0])
    del told["usage"]
    without = json.dumps(told).encode()

    pieces = [piece_of(without, "float"), piece_of(one_by_one(["b"])[0], "float")]

    assert "usage" not in json.loads(joined(pieces))
    assert "usage" not in json.loads(joined(pieces[::-1]))


def test_vectors_of_two_lengths_are_not_put_together():
    short = (
        body_of(["a"]).replace(b"[0.", b"[0.5, 0.")
        if b"[0." in body_of(["a"])
        else body_of(["a"]).replace(b"[-0.", b"[0.5, -0.")
    )

    with pytest.raises(NotAnAnswer):
        joined([piece_of(short, "float"), piece_of(body_of(["b"]), "float")])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"data":1}',
        b"\xff",
        b'{"data":[1,2]}',
        b"null",
        b'{"data":[{},{}]}',
        b'{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]}],"x":"\\ud800"}',
    ],
)
def test_what_is_no_answer_to_two_inputs_is_not_taken_apart(body):
    with pytest.raises(Unsplit):
        split(body, [1, 1])
    if b"{}" not in body and b"index" not in body:
        with pytest.raises(NotAnAnswer):
            in_form(body, "base64")


@pytest.mark.parametrize("vector", [[], [1e39], [-1e39, 0.5], [True], ["1"], [None]])
def test_what_is_no_vector_of_float32_is_never_told_as_one(vector):
    body = json.dumps({"object": "list", "data": [{"index": 0, "embedding": vector}], "model": "m"}).encode()

    with pytest.raises(NotAnAnswer):
        in_form(body, "base64")
