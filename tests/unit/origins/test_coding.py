from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from foretold.errors import OriginError
from foretold.origins import coding
from foretold.origins.coding import decoder_for

TEXT = b"some text " * 50_000
CODED = {"gzip": gzip.compress(TEXT), "x-gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT)}


def decoded(name: str, body: bytes, *, step: int) -> tuple[bytes, bool]:
    decoder = decoder_for(name)
    pieces = [p for at in range(0, len(body), step) for p in decoder.decode(body[at : at + step])]
    assert all(len(p) <= 64 * 1024 for p in pieces)
    return b"".join(pieces), decoder.is_at_end


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("step", [1, 7, 1000, 10**9])
def test_a_coded_body_comes_out_whole_however_it_is_cut(name, step):
    assert decoded(name, CODED[name], step=step) == (TEXT, True)


@pytest.mark.parametrize("name", CODED)
def test_a_body_cut_anywhere_is_not_at_its_end(name):
    body = CODED[name]

    for cut in range(1, len(body), 97):
        _, is_at_end = decoded(name, body[:cut], step=10**9)
        assert not is_at_end


def test_several_gzip_members_are_one_body():
    assert decoded("gzip", gzip.compress(b"one ") + gzip.compress(b"two"), step=5) == (b"one two", True)


def test_an_empty_body_is_at_its_end():
    assert decoder_for("gzip").is_at_end


def test_what_is_not_of_its_coding_is_an_error():
    with pytest.raises(OriginError, match="coding"):
        list(decoder_for("gzip").decode(b"plain text"))


def test_a_body_that_grows_past_the_cap_is_an_error(monkeypatch):
    monkeypatch.setattr(coding, "LARGEST_DECODED_BYTES", 2**20)

    with pytest.raises(OriginError, match="longer"):
        list(decoder_for("gzip").decode(gzip.compress(bytes(2**21))))


def test_a_small_chunk_that_holds_much_is_decoded_only_as_it_is_asked_for():
    bomb = gzip.compress(bytes(64 * 2**20))
    tracemalloc.start()

    pieces = decoder_for("gzip").decode(bomb)
    sizes = [len(next(pieces)) for _ in range(100)]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert sizes == [64 * 1024] * 100
    assert peak_bytes < 2**20


def test_an_unknown_coding_is_passed_on_and_never_proved():
    decoder = decoder_for("br")

    assert list(decoder.decode(b"x")) == [b"x"]
    assert not decoder.is_at_end
