"""Server-sent events: transcripts and their ends (rules R3, P1)."""

from typing import Any

from cases.writing import Vector, fails, gives, hexed, utf8


def _event(raw: str, data: str | None, name: str = "") -> dict[str, Any]:
    return {"raw": raw, "data": data, "name": name}


def _split(name: str, transcript: str, events: list[dict[str, Any]], rest: str = "") -> Vector:
    return gives(name, "R3", "split", {"transcript": utf8(transcript)}, {"events": events, "rest": rest})


_SPLIT = [
    _split("no bytes hold no event", "", []),
    _split("an event ends with a blank line", "data: a\n\n", [_event("data: a\n\n", "a")]),
    _split("two events are two", "data: a\n\ndata: b\n\n", [_event("data: a\n\n", "a"), _event("data: b\n\n", "b")]),
    _split(
        "an event without its blank line is not whole",
        "data: a\n\ndata: b\n",
        [_event("data: a\n\n", "a")],
        "data: b\n",
    ),
    _split("lines may end with CR LF", "data: a\r\n\r\n", [_event("data: a\r\n\r\n", "a")]),
    _split("lines may end with CR", "data: a\r\rdata: b\r\r", [_event("data: a\r\r", "a"), _event("data: b\r\r", "b")]),
    _split(
        "ends of line may be mixed",
        "data: a\n\r\ndata: b\r\n\n",
        [_event("data: a\n\r\n", "a"), _event("data: b\r\n\n", "b")],
    ),
    _split("a CR LF is one end of line", "data: a\r\ndata: b\r\n\r\n", [_event("data: a\r\ndata: b\r\n\r\n", "a\nb")]),
    _split("a CR and a CR LF are two", "data: a\r\r\n", [_event("data: a\r\r\n", "a")]),
    _split(
        "an LF and a CR are two", "data: a\n\rdata: b\n\n", [_event("data: a\n\r", "a"), _event("data: b\n\n", "b")]
    ),
    _split(
        "data on two lines is joined by a line feed", "data: a\ndata: b\n\n", [_event("data: a\ndata: b\n\n", "a\nb")]
    ),
    _split("one space after the colon goes", "data:  a \n\n", [_event("data:  a \n\n", " a ")]),
    _split("there need be no space after the colon", "data:a\n\n", [_event("data:a\n\n", "a")]),
    _split("a tab after the colon stays", "data:\ta\n\n", [_event("data:\ta\n\n", "\ta")]),
    _split("a colon in data stays", "data: a: b\n\n", [_event("data: a: b\n\n", "a: b")]),
    _split("a field without a colon is empty", "data\n\n", [_event("data\n\n", "")]),
    _split("two empty fields are a line feed", "data\ndata\n\n", [_event("data\ndata\n\n", "\n")]),
    _split(
        "an event may have a name", "event: ping\ndata: {}\n\n", [_event("event: ping\ndata: {}\n\n", "{}", "ping")]
    ),
    _split("the last of two names counts", "event: a\nevent: b\n\n", [_event("event: a\nevent: b\n\n", None, "b")]),
    _split("a comment is an event without data", ": keep-alive\n\n", [_event(": keep-alive\n\n", None)]),
    _split("id and retry are no data", "id: 1\nretry: 5\n\n", [_event("id: 1\nretry: 5\n\n", None)]),
    _split("names of fields are small", "Data: a\n\n", [_event("Data: a\n\n", None)]),
    _split("a space before a field's name makes it another", " data: a\n\n", [_event(" data: a\n\n", None)]),
    _split("a byte order mark at the start doesn't count", "\ufeffdata: a\n\n", [_event("\ufeffdata: a\n\n", "a")]),
    _split(
        "blank lines between events stay with the next",
        "data: a\n\n\ndata: b\n\n",
        [_event("data: a\n\n", "a"), _event("\ndata: b\n\n", "b")],
    ),
    _split(
        "blank lines at the start are an event without data",
        "\n\ndata: a\n\n",
        [_event("\n\n", None), _event("data: a\n\n", "a")],
    ),
    _split(
        "other separators are part of a line",
        "data: a\u2028b\x0bc\x85d\n\n",
        [_event("data: a\u2028b\x0bc\x85d\n\n", "a\u2028b\x0bc\x85d")],
    ),
    _split("data of other scripts is kept", "data: 日本 🙂\n\n", [_event("data: 日本 🙂\n\n", "日本 🙂")]),
    fails("an event that is no UTF-8 is none", "R3", "split", {"transcript": hexed(b"data: \xff\n\n")}, "not_utf8"),
]


def _ends(name: str, transcript: str, out: bool) -> Vector:
    return gives(name, "P1", "ends_cleanly", {"transcript": utf8(transcript)}, out)


_ENDS = [
    _ends("a transcript ends cleanly with [DONE]", "data: {}\n\ndata: [DONE]\n\n", True),
    _ends("[DONE] alone ends cleanly", "data: [DONE]\n\n", True),
    _ends("[DONE] needs no space before it", "data:[DONE]\n\n", True),
    _ends("a comment may follow [DONE]", "data: [DONE]\n\n: bye\n\n", True),
    _ends("blank lines may follow [DONE]", "data: [DONE]\n\n\n", True),
    _ends("white space may follow [DONE]", "data: [DONE]\n\n \t\r", True),
    _ends("a transcript without [DONE] was cut", "data: {}\n\n", False),
    _ends("a transcript without events was cut", "", False),
    _ends("[DONE] without its blank line was cut", "data: {}\n\ndata: [DONE]\n", False),
    _ends("[DONE] must be last", "data: [DONE]\n\ndata: {}\n\n", False),
    _ends("[DONE] must come once", "data: [DONE]\n\ndata: [DONE]\n\n", False),
    _ends("bytes after [DONE] are none of it", "data: [DONE]\n\nx", False),
    _ends("[DONE] with a space after it is another text", "data: [DONE] \n\n", False),
    _ends("[done] is another text", "data: [done]\n\n", False),
    _ends("[DONE] as an event's name is none", "event: [DONE]\n\n", False),
]


def _fed(name: str, chunks: list[str], fed: list[list[str]], rest: str = "") -> Vector:
    return gives(name, "R3", "splitter", {"chunks": [utf8(chunk) for chunk in chunks]}, {"fed": fed, "rest": rest})


_STREAMS = [
    _fed("an event comes out with its last byte", ["data: a\n", "\n"], [[], ["data: a\n\n"]]),
    _fed("two events of one chunk come out together", ["data: a\n\ndata: b\n\n"], [["data: a\n\n", "data: b\n\n"]]),
    _fed(
        "an event waits for its end", ["data", ": a", "\n\nda", "ta: b\n\n"], [[], [], ["data: a\n\n"], ["data: b\n\n"]]
    ),
    _fed(
        "a CR at the end of a chunk waits, since it may be half of a CR LF",
        ["data: a\r\n\r", "\ndata: b\r\n\r\n"],
        [[], ["data: a\r\n\r\n", "data: b\r\n\r\n"]],
    ),
    _fed("a CR LF that is cut in two ends one line", ["data: a\r", "\ndata: b\n\n"], [[], ["data: a\r\ndata: b\n\n"]]),
    _fed("a CR that was no half ends its line", ["data: a\r\r", "data: b\n\n"], [[], ["data: a\r\r", "data: b\n\n"]]),
    _fed("a CR that waits to the end of the stream is left over", ["data: a\r\r"], [[]], "data: a\r\r"),
    _fed("every byte may come alone", list("data: a\r\n\r\n"), [[]] * 10 + [["data: a\r\n\r\n"]]),
    _fed("an empty chunk brings nothing", ["", "data: a\n\n", ""], [[], ["data: a\n\n"], []]),
    _fed("what follows the last event is left over", ["data: a\n\nda", "ta"], [["data: a\n\n"], []], "data"),
    _fed(
        "a chunk may hold the end of one event and the whole of another",
        ["data: a\n", "\ndata: b\n\nd"],
        [[], ["data: a\n\n", "data: b\n\n"]],
        "d",
    ),
]


def _limited(name: str, chunks: list[str], fed: list[list[str]], rest: str = "") -> Vector:
    """With a limit of 10 bytes in place of 8 MiB."""
    given = {"chunks": [utf8(chunk) for chunk in chunks], "longest_bytes": 10}
    return gives(name, "R3", "splitter", given, {"fed": fed, "rest": rest})


_TOO_LONG = [
    _limited("an event as long as allowed is waited for", ["data: abcd", "\n\n"], [[], ["data: abcd\n\n"]]),
    _limited(
        "an event longer than allowed goes out as it comes, and all after it",
        ["data: abc", "de", "f", "\n\ndata: a\n", "\n"],
        [[], ["data: abcde"], ["f"], ["\n\ndata: a\n"], ["\n"]],
    ),
    _limited(
        "events before one that is too long come out whole",
        ["data: a\n\ndata: bcdefg"],
        [["data: a\n\n", "data: bcdefg"]],
    ),
    _limited("an event that comes with its end is never too long", ["data: abcdefgh\n\n"], [["data: abcdefgh\n\n"]]),
    _limited(
        "after an event that is too long an empty chunk brings nothing", ["data: abcde", ""], [["data: abcde"], []]
    ),
]

FILES = {"events": _SPLIT + _ENDS + _STREAMS + _TOO_LONG}
