"""What is written anew changes in nothing else: names, texts and numbers (rule P3), byte for byte."""

import reference

from cases.writing import Vector, gives, hexed, utf8

_CHANCE = bytes(range(16))
_ONE = "call_abcdefghijklmnopqrstuvwx"
_NEW_ONE = reference.fresh_id(_ONE, _CHANCE)


def _everywhere(what: str, told: str, out: str) -> list[Vector]:
    """The vectors of an object, told as JSON and as it is written anew, in each place where an answer is."""
    chance = {"randomness": hexed(_CHANCE)}
    event = '{"id":"a","object":"chat.completion.chunk",%s"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}'
    whole = '{"id":"a","object":"chat.completion","choices":[{"index":0,"message":%s,"finish_reason":"stop"}],"x":%s}'
    said = '{"role":"assistant","content":null,"m":%s}'
    opened, ended = event % ('"x":%s,', said, "null"), event % ("", "{}", '"stop"')
    call = '{"choices":[{"%s":{"tool_calls":[{"id":"%s"}]}}],"x":%s}'
    return [
        gives(
            f"a transcript given whole keeps {what}",
            "P3",
            "whole",
            {"operation": "chat", "shape": "events", "body": utf8(_sse(opened % (told, told), ended))},
            utf8(whole % (said % out, out)),
        ),
        gives(
            f"a whole answer given as a transcript keeps {what}",
            "P3",
            "events",
            {"operation": "chat", "shape": "whole", "usage": False, "body": utf8(whole % (said % told, told))},
            utf8(_sse(opened % (out, out), ended)),
        ),
        gives(
            f"a whole answer with fresh ids keeps {what}",
            "P3",
            "whole",
            {"operation": "chat", "shape": "whole", "body": utf8(call % ("message", _ONE, told)), **chance},
            utf8(call % ("message", _NEW_ONE, out)),
        ),
        gives(
            f"a transcript with fresh ids keeps {what}",
            "P3",
            "transcript_with_fresh_ids",
            {"transcript": utf8(_sse(call % ("delta", _ONE, told))), **chance},
            utf8(_sse(call % ("delta", _NEW_ONE, out))),
        ),
    ]


def _sse(*told: str) -> str:
    return "".join(f"data: {line}\n\n" for line in [*told, "[DONE]"])


def _same(what: str, told: str) -> list[Vector]:
    return _everywhere(what, told, told)


_KEPT = [
    *_same("whole numbers beyond 2^53", '{"a":[9007199254740993,-9007199254740993,9223372036854775807]}'),
    *_same(
        "whole numbers beyond 64 bits", '{"a":[18446744073709551616,-9223372036854775809,123456789012345678901234]}'
    ),
    *_same("fractions as they were told", '{"a":[0.1,1.0,0.10,-0.0,100.00,0.1000000000000000055511151231257827]}'),
    *_same("exponents as they were told", '{"a":[1e16,1E5,1e-7,1e+2,1.0e-05,5e-324,1e-400,1e21,0e0]}'),
    *_same("a zero's sign", '{"a":[-0,0]}'),
    *_same("members in their order, numbers among their names", '{"b":1,"10":2,"9":3,"a":{"1":4,"0":5}}'),
    *_same("members with names of the language's own", '{"__proto__":{"a":1},"constructor":2,"toString":null}'),
    *_same("empty texts, lists, objects and names", '{"":"","a":[],"b":{},"c":[{},[]]}'),
    *_everywhere("no white space", ' { "a" : [ 1 , 2 ]\t, "b" : { } } ', '{"a":[1,2],"b":{}}'),
    *_everywhere(
        "texts in their shortest form",
        r'{"a":"\u0061\/\u00e9\ud83d\ude42\u2028\u007f\u0000\u001F\u000a\b\f\t\"\\"}',
        r'{"a":"a/é🙂' + "\u2028\x7f" + r'\u0000\u001f\n\b\f\t\"\\"}',
    ),
    *_everywhere(
        "names in their shortest form",
        r'{"\\":1,"\u65e5":2,"\ud83d\ude42":3,"\u003a":4}',
        r'{"\\":1,"日":2,"🙂":3,":":4}',
    ),
    *_everywhere("the last of a name told twice, in the first's place", '{"a":1,"b":2,"a":3.0}', '{"a":3.0,"b":2}'),
]

FILES = {"verbatim": _KEPT}
