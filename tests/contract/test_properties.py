"""What holds for every value, not only for those of the vectors."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from typing import Any

import msgspec.structs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.contract.canonical import canonical, read
from foretold.contract.events import Splitter, split
from foretold.contract.inputs import json_input
from foretold.contract.key import key_of
from foretold.contract.query import Query
from foretold.contract.record import Record, pack, unpack
from foretold.projections import calls, chat, completion, fold, shapes
from tests.contract import strategies
from tests.contract.values import SECRET, is_same

# How many times the usual number of values are tried.
TIMES = int(os.environ.get("PROPERTY_TIMES", "1"))
MANY = settings(deadline=None, max_examples=100 * TIMES)
# Whole answers take long to make up.
SOME = settings(deadline=None, max_examples=50 * TIMES)


def _read(value: Any) -> Any:
    return read(json.dumps(value).encode())


@MANY
@given(strategies.records())
def test_a_record_comes_back_as_it_was_packed(record: Record):
    found = unpack(pack(record, SECRET), SECRET, key=record.key, namespace=record.namespace)

    assert found == record


@MANY
@given(strategies.records())
def test_packing_changes_nothing_that_is_packed(record: Record):
    before = copy.deepcopy(record)

    pack(record, SECRET)

    assert is_same(msgspec.structs.asdict(record), msgspec.structs.asdict(before))


@MANY
@given(strategies.records())
def test_a_record_is_packed_the_same_again(record: Record):
    blob = pack(record, SECRET)

    assert pack(unpack(blob, SECRET, key=record.key, namespace=record.namespace), SECRET) == blob


@SOME
@given(strategies.chats())
def test_a_chat_unfolded_and_folded_is_itself(whole: dict[str, Any]):
    transcript = chat.transcript_of(whole, usage=True)

    assert is_same(json.loads(shapes.whole("chat", transcript, shape="events")), whole)


@SOME
@given(strategies.completions())
def test_a_completion_unfolded_and_folded_is_itself(whole: dict[str, Any]):
    transcript = completion.transcript_of(whole, usage=True)

    assert is_same(json.loads(shapes.whole("completion", transcript, shape="events")), whole)


@SOME
@given(strategies.chats())
def test_withholding_usage_is_the_same_as_not_telling_it(whole: dict[str, Any]):
    told = chat.transcript_of(whole, usage=True)

    assert shapes.without_usage(told) == chat.transcript_of(whole, usage=False)


@SOME
@given(strategies.chats(), st.binary(min_size=16, max_size=16))
def test_fresh_ids_are_the_same_in_both_shapes(whole: dict[str, Any], randomness: bytes):
    transcript = calls.transcript_with_fresh_ids(chat.transcript_of(whole, usage=True), randomness)

    calls.whole_with_fresh_ids(whole, randomness)

    assert is_same(json.loads(shapes.whole("chat", transcript, shape="events")), whole)


@MANY
@given(st.text(strategies.CHARACTERS, max_size=300))
def test_pieces_are_short_and_join_to_their_text(text: str):
    pieces = fold.pieces(text)

    assert "".join(pieces) == text
    assert all(0 < len(piece) <= fold.PIECE_CODE_POINTS for piece in pieces)


@MANY
@given(strategies.json_values(), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_count(value: Any, chance: Any):
    shuffled = strategies.shuffled(value, chance)

    assert json_input("json /a", _read(value)) == json_input("json /a", _read(shuffled))


@MANY
@given(strategies.json_values())
def test_the_canonical_form_is_its_own(value: Any):
    text = canonical(_read(value))

    assert canonical(read(text)) == text
    assert is_same(json.loads(text), value)


@MANY
@given(strategies.json_values(), st.data())
def test_any_change_of_one_value_changes_the_input(value: Any, data: st.DataObject):
    changed = data.draw(strategies.changed_once(value))

    assert json_input("json /a", _read(value)) != json_input("json /a", _read(changed))


@MANY
@given(strategies.chat_bodies(), st.data())
def test_any_change_of_one_member_changes_the_input_of_a_chat(body: dict[str, Any], data: st.DataObject):
    name = data.draw(st.sampled_from(sorted(body)))
    other = data.draw(strategies.json_values().filter(lambda v: v is not None and not is_same(v, body[name])))

    changed = {**body, name: other}
    less = {n: v for n, v in body.items() if n != name}

    inputs = {json_input("chat", _read(b)) for b in (body, changed, less)}
    assert len(inputs) == 3


@MANY
@given(strategies.queries(), st.data())
def test_any_change_of_one_field_changes_the_key(query: Query, data: st.DataObject):
    other = data.draw(strategies.queries())

    for field in msgspec.structs.fields(Query):
        value = getattr(other, field.name)
        if value != getattr(query, field.name):
            assert key_of(msgspec.structs.replace(query, **{field.name: value})) != key_of(query)


@MANY
@given(strategies.queries(), st.permutations(["namespace", "operation", "model", "revision", "query", "form", "input"]))
def test_no_value_can_stand_for_another_field(query: Query, fields: list[str]):
    one, other, *_ = fields
    here, there = getattr(query, one), getattr(query, other)

    swapped = msgspec.structs.replace(query, **{one: there, other: here})

    assert (key_of(swapped) == key_of(query)) == (here == there)


@MANY
@given(strategies.transcripts(), st.data())
def test_any_chunking_gives_the_same_events(transcript: bytes, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(transcript)), max_size=12)))
    splitter = Splitter()

    fed = [
        raw
        for start, end in zip([0, *cuts], [*cuts, len(transcript)], strict=True)
        for raw in splitter.feed(transcript[start:end])
    ]

    # The stream is over, so a CR that waited for its LF ends its line.
    last, rest = split(splitter.rest())
    events, expected_rest = split(transcript)
    assert [*fed, *(event.raw for event in last)] == [event.raw for event in events]
    assert rest == expected_rest


@pytest.mark.slow
def test_all_properties_hold_for_twenty_times_as_many_values():
    """In a process of its own: how many values are tried is settled when this file is read."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "PROPERTY_TIMES": "20"},
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout
