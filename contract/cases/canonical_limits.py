"""What has no canonical form, and what is no JSON (rule K8)."""

import reference

from cases.writing import fails, gives, hexed, repeated, utf8

MIB = 1024 * 1024

_REPEATS = [
    ("a name given twice is no key", '{"a":1,"a":2}'),
    ("a name given twice with equal values is no key", '{"a":1,"a":1}'),
    ("a name given twice inside a member is no key", '{"x":{"a":1,"b":2,"a":3}}'),
    ("a name given twice inside a list is no key", '[1,{"a":1,"a":2}]'),
    ("a name given twice by an escape is no key", r'{"a":1,"\u0061":2}'),
    ("the empty name given twice is no key", '{"":1,"":2}'),
    ("__proto__ given twice is no key", '{"__proto__":1,"__proto__":2}'),
    ("a name with a colon given twice, once escaped, is no key", r'{"a\u003a":1,"a:":2}'),
    ("a name given twice beside an escaped colon is no key", r'{"x":"\u003a","b":1,"b":2}'),
    ("a name given twice beside an escaped colon that makes up for it is no key", r'{"a":"\u003a\u003A","b":1,"b":2}'),
    ("the empty name given twice beside an escaped colon is no key", r'{"":1,"x":"\u003a","":2}'),
    ("a name given twice with white space after it is no key", '{"a" \n :1,"a"\t: "\\u003a"}'),
    ("a name given twice around lists and objects is no key", r'{"a":[[],{"a":{}}],"b":"\u003a","a":1}'),
    ("a name given twice in front of an escaped digit is no key", r'{"a":1,"a":"\u0030"}'),
    ("a large object before a repeat hides nothing", '{"a":{"b":{"c":1}},"a":0}'),
    ("a name given twice is found though its value holds colons", '{"a":"::::","a":"x"}'),
    ("a name is repeated even where the member is one that doesn't count", '{"user":"a","user":"b"}'),
]
_NO_REPEATS = [
    ("the same name in two objects is no repeat", '{"a":{"b":1},"c":{"b":2}}', '{"a":{"b":1},"c":{"b":2}}'),
    ("the same name in a member and around it is no repeat", '{"a":{"a":{"a":1}}}', '{"a":{"a":{"a":1}}}'),
    ("a text full of colons is no repeat", '{"a":"::::\\":\\":"}', '{"a":"::::\\":\\":"}'),
    ("an escaped colon in a text is no repeat", r'{"a":"\u003a\u003A"}', '{"a":"::"}'),
    ("an escaped colon in a name is no repeat", r'{"a\u003a":1,"b":2}', '{"a:":1,"b":2}'),
    ("an escaped digit is no repeat", r'{"a":"\u0030"}', '{"a":"0"}'),
    ("a name that looks like JSON is no repeat", r'{"{\"a\":1,\"a\":1}\u003b":2}', r'{"{\"a\":1,\"a\":1};":2}'),
    ("equal texts in a list are no repeat", r'["\u003a","a","a"]', '[":","a","a"]'),
    ("the same name in objects of a list is no repeat", r'[{"\u003c":1},{"<":2}]', '[{"<":1},{"<":2}]'),
    (
        "a name in a list's objects and around the list is no repeat",
        r'{"a":[["x"],{"a":"\u003a"},[{"a":[]}]],"b":{"a":1}}',
        '{"a":[["x"],{"a":":"},[{"a":[]}]],"b":{"a":1}}',
    ),
    ("two spellings of a letter are two names", '{"\xe9":1,"e\u0301":2}', '{"e\u0301":2,"\xe9":1}'),
]

_SURROGATES = [
    ("a high surrogate alone is no key", r'"\ud800"'),
    ("a low surrogate alone is no key", r'"\udc00"'),
    ("a pair the wrong way round is no key", r'"\ude00\ud83d"'),
    ("two high surrogates are no key", r'"\ud83d\ud83d\ude00"'),
    ("a surrogate in capitals is no key", r'"\uDFFF"'),
    ("a surrogate in a name is no key", r'{"\ud800":1}'),
    ("a surrogate deep inside is no key", r'{"a":[{"b":"x\ud83dy"}]}'),
    ("a pair that is cut by a letter is no key", r'"\ud83da\ude00"'),
]

_NUMBERS = [
    ("2 to the 53 is no key", "9007199254740992"),
    ("minus 2 to the 53 is no key", "-9007199254740992"),
    ("2 to the 53 and 1 is no key", "9007199254740993"),
    ("what rounds to 2 to the 53 is no key", "9007199254740991.5"),
    ("1e16 is no key", "1e16"),
    ("minus 1e16 is no key", "-1e16"),
    ("2 to the 64 is no key", "18446744073709551616"),
    ("1e21 is no key", "1e21"),
    ("the largest double is no key", "1.7976931348623157e308"),
    ("a number that overflows is no key", "1e400"),
    ("a negative number that overflows is no key", "-1e400"),
    ("a number too large in a list is no key", '{"a":[1,1e16]}'),
    ("a number too large in a member is no key", '{"a":{"b":12345678901234567890}}'),
]

_MALFORMED = [
    ("nothing is not JSON", ""),
    ("spaces are not JSON", "  "),
    ("NaN is not JSON", "[NaN]"),
    ("Infinity is not JSON", "Infinity"),
    ("minus Infinity is not JSON", '{"a":-Infinity}'),
    ("a comma at the end of a list is not JSON", "[1,]"),
    ("a comma at the end of an object is not JSON", '{"a":1,}'),
    ("a comma without a value is not JSON", "[,1]"),
    ("single quotes are not JSON", "['a']"),
    ("a bare name is not JSON", "{a:1}"),
    ("a number as a name is not JSON", "{1:2}"),
    ("a comment is not JSON", "[1]//"),
    ("a 0 before a number is not JSON", "01"),
    ("a point without digits after it is not JSON", "1."),
    ("a point without digits before it is not JSON", ".5"),
    ("an exponent without digits is not JSON", "1e"),
    ("a plus sign is not JSON", "+1"),
    ("a minus sign alone is not JSON", "-"),
    ("a hex number is not JSON", "0x10"),
    ("a number with underscores is not JSON", "1_000"),
    ("digits of other scripts are not JSON", "\u0661"),
    ("two values are not JSON", "1 2"),
    ("a second document after the first is not JSON", '{"a":1}{"b":2}'),
    ("a line feed in a text is not JSON", '"a\nb"'),
    ("a tab in a text is not JSON", '"a\tb"'),
    ("a zero byte in a text is not JSON", '"a\0b"'),
    ("an unknown escape is not JSON", r'"\x41"'),
    ("a capital U escape is not JSON", r'"\U0041"'),
    ("a short escape is not JSON", r'"\u12"'),
    ("an escape that is no hex is not JSON", r'"\u00g0"'),
    ("a text without its end is not JSON", '"a'),
    ("a list without its end is not JSON", "[1"),
    ("an object without its end is not JSON", '{"a":1'),
    ("a member without a value is not JSON", '{"a"}'),
    ("brackets that cross are not JSON", '[{"a":1]}'),
    ("a bracket too many is not JSON", "[]]"),
    ("a form feed between tokens is not JSON", "[1,\f2]"),
    ("a no-break space between tokens is not JSON", "[1,\xa02]"),
    ("a line separator between tokens is not JSON", "[1,\u20282]"),
    ("Python's True is not JSON", "True"),
    ("undefined is not JSON", "undefined"),
    ("broken text is told before a number that overflows", "[1e400,]"),
    ("broken text is told before a lone surrogate", r'["\ud800",]'),
    ("broken text is told before a repeat", '{"a":1,"a":2,}'),
]
_BROKEN_BYTES = [
    ("a byte order mark is not JSON", b"\xef\xbb\xbf{}"),
    ("a byte that is no UTF-8 is not JSON", b'"\xff"'),
    ("a continuation byte alone is not JSON", b'"\x80"'),
    ("a character cut short is not JSON", b'"\xe2\x82"'),
    ("an overlong slash is not JSON", b'"\xc0\xaf"'),
    ("surrogates written as UTF-8 are not JSON", b'"\xed\xa0\xbd\xed\xb8\x80"'),
    ("a code point beyond the last is not JSON", b'"\xf4\x90\x80\x80"'),
    ("UTF-16 is not JSON", '"a"'.encode("utf-16-le")),
    ("a byte that is no UTF-8 outside a text is not JSON", b"[1]\xff"),
]

_ORDER_OF_VERDICTS = [
    ("a repeat is told before a surrogate", r'{"a":"\ud800","a":1}', "repeat"),
    ("a repeat is told before a number", '{"a":1e400,"a":1}', "repeat"),
    ("a repeat is told before a large whole number", '{"a":9007199254740992,"a":1}', "repeat"),
    ("a surrogate is told before a number that overflows", r'[1e400,"\ud800"]', "surrogate"),
    ("a surrogate is told before a large whole number", r'[9007199254740992,"\ud800"]', "surrogate"),
    ("a repeat is told before both", r'{"a":1e400,"b":"\ud800","a":1}', "repeat"),
]


def _nested(depth: int, opening: str = "[", closing: str = "]") -> dict[str, object]:
    return repeated((opening, depth), (closing, depth))


def _digest_of(text: str) -> str:
    return reference.sha256(text.encode())


_LIMITS = [
    gives("128 brackets open at once are allowed", "K8", "canonical", {"text": _nested(128)}, _nested(128)),
    fails("129 brackets open at once are malformed", "K8", "canonical", {"text": _nested(129)}, "malformed_body"),
    gives(
        "128 braces open at once are allowed",
        "K8",
        "canonical",
        {"text": repeated(('{"a":', 127), ("{}", 1), ("}", 127))},
        repeated(('{"a":', 127), ("{}", 1), ("}", 127)),
    ),
    fails(
        "129 brackets and braces open at once are malformed",
        "K8",
        "canonical",
        {"text": repeated(('[{"a":', 64), ("[]", 1), ("}]", 64))},
        "malformed_body",
    ),
    gives(
        "brackets side by side are not depth",
        "K8",
        "canonical",
        {"text": repeated(("[", 1), ("[],", 500), ("[]]", 1))},
        repeated(("[", 1), ("[],", 500), ("[]]", 1)),
    ),
    *(
        fails(
            f"{what} hides no bracket",
            "K8",
            "canonical",
            {"text": repeated((opening, 129), ("0", 1), ("]", 129))},
            "malformed_body",
        )
        for what, opening in [
            ("an empty text", '["",'),
            ("a text of a backslash", r'["\\",'),
            ("a text of a quote", r'["\"",'),
            ("white space", "[ \n"),
        ]
    ),
    fails(
        "brackets that were closed make no room for more",
        "K8",
        "canonical",
        {"text": repeated(("[", 1), ("[],", 500), ("[", 128), ("]", 129))},
        "malformed_body",
    ),
    gives(
        "brackets in a text are not depth",
        "K8",
        "canonical",
        {"text": repeated(('"', 1), ("[", 500), ('\\"', 1), ("{", 500), ('"', 1))},
        repeated(('"', 1), ("[", 500), ('\\"', 1), ("{", 500), ('"', 1)),
    ),
    fails(
        "100,000 brackets that never close are malformed",
        "K8",
        "canonical",
        {"text": repeated(("[", 100_000))},
        "malformed_body",
    ),
    gives(
        "1,000,000 values are allowed, the list around them counted",
        "K8",
        "canonical_sha256",
        {"text": repeated(("[", 1), ("0,", 999_998), ("0]", 1))},
        _digest_of("[" + "0," * 999_998 + "0]"),
    ),
    fails(
        "1,000,001 values are malformed",
        "K8",
        "canonical",
        {"text": repeated(("[", 1), ("0,", 999_999), ("0]", 1))},
        "malformed_body",
    ),
    gives(
        "an empty list or object is one value",
        "K8",
        "canonical_sha256",
        {"text": repeated(("[", 1), ("[],", 499_999), ("{ },", 499_999), ("[\n]]", 1))},
        _digest_of("[" + "[]," * 499_999 + "{}," * 499_999 + "[]]"),
    ),
    fails(
        "an empty list too many is malformed",
        "K8",
        "canonical",
        {"text": repeated(("[", 1), ("[],", 999_999), ("[]]", 1))},
        "malformed_body",
    ),
    gives(
        "commas in a text are not values",
        "K8",
        "canonical_sha256",
        {"text": repeated(('"', 1), (",", 1_500_000), ('"', 1))},
        _digest_of('"' + "," * 1_500_000 + '"'),
    ),
    gives(
        "4 MiB are allowed",
        "K8",
        "canonical_sha256",
        {"text": repeated(('"', 1), ("a", 4 * MIB - 2), ('"', 1))},
        _digest_of('"' + "a" * (4 * MIB - 2) + '"'),
    ),
    fails(
        "a byte over 4 MiB has no key",
        "K8",
        "canonical",
        {"text": repeated(('"', 1), ("a", 4 * MIB - 1), ('"', 1))},
        "size",
    ),
    fails("over 4 MiB nothing else is looked at", "K8", "canonical", {"text": repeated(("[", 4 * MIB + 1))}, "size"),
    fails("a number of 400 digits has no key", "K8", "canonical", {"text": repeated(("1", 400))}, "number"),
    fails("a number of 5,000 digits has no key", "K8", "canonical", {"text": repeated(("9", 5000))}, "number"),
    gives(
        "a long fraction is rounded",
        "K8",
        "canonical",
        {"text": repeated(("0.", 1), ("3", 5000))},
        utf8("0.3333333333333333"),
    ),
]

FILES = {
    "unkeyable": [
        *(fails(name, "K8", "canonical", {"text": utf8(text)}, "repeat") for name, text in _REPEATS),
        *(gives(name, "K8", "canonical", {"text": utf8(text)}, utf8(out)) for name, text, out in _NO_REPEATS),
        *(fails(name, "K8", "canonical", {"text": utf8(text)}, "surrogate") for name, text in _SURROGATES),
        *(fails(name, "K8", "canonical", {"text": utf8(text)}, "number") for name, text in _NUMBERS),
        *(fails(name, "K8", "canonical", {"text": utf8(text)}, why) for name, text, why in _ORDER_OF_VERDICTS),
    ],
    "malformed": [
        *(fails(name, "K8", "canonical", {"text": utf8(text)}, "malformed_body") for name, text in _MALFORMED),
        *(fails(name, "K8", "canonical", {"text": hexed(text)}, "malformed_body") for name, text in _BROKEN_BYTES),
    ],
    "limits": _LIMITS,
}
