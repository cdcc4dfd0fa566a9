"""RFC 8785 as rule K5 uses it: order, texts, numbers."""

from cases.writing import gives, utf8

_ORDER = [
    ("members are sorted by name", r'{"b":1,"a":2}', '{"a":2,"b":1}'),
    ("members inside members are sorted too", r'{"z":{"b":1,"a":2},"a":[]}', '{"a":[],"z":{"a":2,"b":1}}'),
    ("members inside a list are sorted too", r'[{"b":1,"a":2}]', '[{"a":2,"b":1}]'),
    ("the order of a list stays", "[3,1,2]", "[3,1,2]"),
    ("white space between tokens goes", ' {\t"a" :\r\n[ 1 , 2 ] } ', '{"a":[1,2]}'),
    ("white space inside a text stays", r'{"a":" \t"}', r'{"a":" \t"}'),
    ("names that look like numbers are sorted as text", '{"10":1,"9":2,"1":3}', '{"1":3,"10":1,"9":2}'),
    ("a name that looks like a number stands among the others", '{"b":1,"5":2,"A":3}', '{"5":2,"A":3,"b":1}'),
    ("the empty name comes first", '{"a":1,"":2}', '{"":2,"a":1}'),
    ("capital letters come before small ones", '{"a":1,"B":2}', '{"B":2,"a":1}'),
    ("a name comes before the same name with more", '{"ab":1,"a":2}', '{"a":2,"ab":1}'),
    (
        "names are sorted by UTF-16 units, so an emoji comes before U+E000",
        '{"\ue000":1,"\U0001f600":2}',
        '{"\U0001f600":2,"\ue000":1}',
    ),
    (
        "names that differ after an emoji are sorted by UTF-16 units",
        '{"\U0001f600\uffff":1,"\U0001f600\U0001f600":2}',
        '{"\U0001f600\U0001f600":2,"\U0001f600\uffff":1}',
    ),
    (
        "an emoji among small letters comes after them",
        '{"\U0001f600":1,"z":2,"\u20ac":3}',
        '{"z":2,"\u20ac":3,"\U0001f600":1}',
    ),
    ("UTF-16 order holds inside a list", '[{"\uff5e":1,"\U00010000":2}]', '[{"\U00010000":2,"\uff5e":1}]'),
    (
        "RFC 8785's own example of sorting",
        r'{"\u20ac":"Euro","\r":"Return","\ufb33":"Dalet","1":"One","\ud83d\ude00":"Smile","\u0080":"Control",'
        r'"\u00f6":"O"}',
        '{"\\r":"Return","1":"One","\x80":"Control","\xf6":"O","\u20ac":"Euro","\U0001f600":"Smile","\ufb33":"Dalet"}',
    ),
    ("__proto__ is a name like any other", '{"a":1,"__proto__":{"b":2}}', '{"__proto__":{"b":2},"a":1}'),
    (
        "constructor and toString are names like any other",
        '{"toString":1,"constructor":2}',
        '{"constructor":2,"toString":1}',
    ),
    ("an escaped name is sorted by what it means", r'{"b":1,"\u0061":2}', '{"a":2,"b":1}'),
    ("a control character in a name stays escaped", r'{"\u0001":1,"\u0000":2}', '{"\\u0000":2,"\\u0001":1}'),
    ("a name may hold a colon", '{"a:":1,"b:c":2}', '{"a:":1,"b:c":2}'),
    ("a text alone is a JSON text", '"a"', '"a"'),
    ("null, true and false are kept", "[null,true,false]", "[null,true,false]"),
    ("true is not 1 and false is not 0", "[true,1,false,0]", "[true,1,false,0]"),
    ("empty things are kept", '[[],{},""]', '[[],{},""]'),
]

_TEXTS = [
    ("short escapes are used where there are some", r'"\b\t\n\f\r\"\\"', r'"\b\t\n\f\r\"\\"'),
    ("long escapes become short ones", r'"\u0008\u0009\u000a\u000c\u000d\u0022\u005c"', r'"\b\t\n\f\r\"\\"'),
    ("an escaped slash is a slash", r'"\/"', '"/"'),
    ("other control characters are escaped in small hex", r'"\u0000\u001F\u000B"', r'"\u0000\u001f\u000b"'),
    ("DEL is not escaped", r'"\u007f"', '"\x7f"'),
    ("an escaped letter is the letter", r'"\u0041\u00e9"', '"A\xe9"'),
    ("capital hex digits mean the same", r'"\u00E9\u00C9"', '"\xe9\xc9"'),
    ("an escaped pair is one character", r'"\ud83d\ude00"', '"\U0001f600"'),
    ("an escaped pair in capitals is one character", r'"\uD83D\uDE00"', '"\U0001f600"'),
    ("U+2028 and U+2029 are not escaped", r'"\u2028\u2029"', '"\u2028\u2029"'),
    ("a composed letter stays composed", '"\xe9"', '"\xe9"'),
    ("a decomposed letter stays decomposed", '"e\u0301"', '"e\u0301"'),
    ("a ligature stays a ligature", '"\ufb01"', '"\ufb01"'),
    ("no-break spaces stay", '"\xa0"', '"\xa0"'),
    ("a byte order mark inside a text stays", '"\ufeff"', '"\ufeff"'),
    ("U+FFFE and U+FFFF are kept", r'"\ufffe\uffff"', '"\ufffe\uffff"'),
    ("the last code point is kept", r'"\udbff\udfff"', '"\U0010ffff"'),
    ("HTML's characters are not escaped", "\"<a href='x'>&</a>\"", "\"<a href='x'>&</a>\""),
    ("an escaped backslash before u is no escape", r'"\\u0041"', r'"\\u0041"'),
    (
        "RFC 8785's own example of a text",
        r'"\u20ac$\u000F\u000aA\u0027\u0042\u0022\u005c\\\"\/"',
        r'''"€$\u000f\nA'B\"\\\\\"/"''',
    ),
]

_NUMBERS = [
    ("0 is 0", "0", "0"),
    ("minus 0 is 0", "-0", "0"),
    ("a fractional minus 0 is 0", "-0.0", "0"),
    ("minus 0 with an exponent is 0", "-0e5", "0"),
    ("a whole number needs no fraction", "1.0", "1"),
    ("zeros after a fraction go", "1.10", "1.1"),
    ("an exponent that makes a whole number goes", "10e-1", "1"),
    ("a positive exponent goes", "1e2", "100"),
    ("a capital exponent with a sign goes", "1E+2", "100"),
    ("a fraction and an exponent can be whole", "0.5e1", "5"),
    ("0.7 stays 0.7", "0.7", "0.7"),
    ("0.1 is written as short as it can be", "0.1000000000000000055", "0.1"),
    ("0.30000000000000004 stays apart from 0.3", "0.30000000000000004", "0.30000000000000004"),
    ("more digits than a double holds are rounded", "333333333.33333329", "333333333.3333333"),
    ("a negative fraction stays", "-2.50", "-2.5"),
    ("0.00001 has no exponent", "1e-5", "0.00001"),
    ("0.000001 has no exponent", "1e-6", "0.000001"),
    ("digits after 0.000001 have no exponent", "1.5e-6", "0.0000015"),
    ("just below 0.00001 there is no exponent", "9.999e-6", "0.000009999"),
    ("0.0000001 has an exponent", "0.0000001", "1e-7"),
    ("digits of a small number stand before its exponent", "0.000000125", "1.25e-7"),
    ("a small negative number has an exponent", "-0.0000001", "-1e-7"),
    ("a negative number between the two has none", "-0.00000123", "-0.00000123"),
    ("an exponent of two digits has no zero before it", "0.000000000000000000000000001", "1e-27"),
    ("the smallest double is kept", "5e-324", "5e-324"),
    ("what rounds to the smallest double is it", "3e-324", "5e-324"),
    ("what is smaller than every double is 0", "1e-400", "0"),
    ("a small negative that is smaller than every double is 0", "-1e-400", "0"),
    ("the smallest normal double is kept", "2.2250738585072014e-308", "2.2250738585072014e-308"),
    ("the largest exact number is kept", "9007199254740991", "9007199254740991"),
    ("the smallest exact number is kept", "-9007199254740991", "-9007199254740991"),
    ("the largest exact number with an exponent is kept", "9.007199254740991e15", "9007199254740991"),
    ("what rounds to the largest exact number is it", "9007199254740991.4", "9007199254740991"),
    ("a large number with a fraction is kept", "4503599627370495.5", "4503599627370495.5"),
    ("1e15 has no exponent", "1e15", "1000000000000000"),
]

FILES = {
    "canonical-form": [
        gives(name, "K5", "canonical", {"text": utf8(text)}, utf8(out))
        for name, text, out in _ORDER + _TEXTS + _NUMBERS
    ],
}
