"""Grammars: those the engine was seen to obey, and nothing that made it hang."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretold.errors import Refused
from foretold.origins.grammar import LONGEST, MOST_OPEN_CLASSES, MOST_OPTIONAL, checked


def refusal(text) -> str:
    with pytest.raises(Refused) as refused:
        checked("grammar", text)
    assert refused.value.param == "grammar"
    assert refused.value.code_here == "bad_value"
    return str(refused.value)


TAKEN = [
    'root ::= "yes" | "no"',
    'root ::= ("Có" | "Không") "."',
    "root ::= [a-z]+",
    'root ::= line line\nline ::= "- " [^\\n]+ "\\n" # a comment',
    'root ::= "a"{3} "b"{1,4} "c"{2,}',
    "root ::= [0-9]{1,8}",
    "root ::= .{3}",
    'root ::= ("a" | "b"){250}',
    'root ::= "(" inner ")"\ninner ::= "x"?',
    'root ::= "\\"" [\\]a-z] "\\\\"',
    ' \t\n# begins so\nroot ::=\n  "a"\n  | "b"',
    "root ::= " + " | ".join(f'"word{i}"' for i in range(300)),
    'root ::= "a" |',
]


@pytest.mark.parametrize("text", TAKEN)
def test_what_the_engine_obeys_is_taken_as_it_is(text):
    assert checked("grammar", text) == text


DOUBLING = "root ::= a0\n" + "\n".join(f"a{i} ::= a{i + 1} a{i + 1}" for i in range(14)) + '\na14 ::= "x"'
REFUSED = {
    "": "1 to",
    "x" * (LONGEST + 1): "1 to",
    'start ::= "a"': "`root`",
    '"a"': "begins with a rule",
    "root ::= thing": "`thing` is nowhere written",
    'root ::= root "a" | "a"': "calls itself",
    'root ::= "a" other\nother ::= "b" root | "c"': "calls itself",
    'root ::= "a': "line 1",
    'root ::= "a"\nx ::= @': "line 2",
    'root ::= ("a"': "no end",
    'root ::= "a")': "too many",
    'root ::= * "a"': "behind nothing",
    'root ::= "a"\nroot ::= "b"': "twice",
    'root ::= "a"{300}': "1 to",
    'root ::= "a"{4,2}': "1 to",
    'root ::= "a"{0}': "1 to",
    'root ::= ("a"{100}){100}': "at most 1000 items",
    DOUBLING: "at most 1000 items",
    "root ::= " + "(" * 30 + '"a"' + ")" * 30: "no deeper",
    "root ::= a0\n" + "\n".join(f"a{i} ::= a{i + 1}" for i in range(30)) + '\na30 ::= "x"': "no deeper",
    '%llguidance {}\nstart: "a"': "line 1",
    # Each of these kept the engine busy for more than 25 s at twelve tokens.
    "root ::= " + " ".join(["[a-z ]?"] * 32): "optional",
    "root ::= " + " ".join(["[a-z ]*"] * 32): "optional",
    "root ::= (" + " | ".join(["[a-z ]+"] * 32) + ")+": "optional",
    "root ::= (" + " | ".join(["[a-z ] [a-z ]"] * 200) + ")+": "optional",
    'root ::= ([a-z ]{0,8} ","?){60}': "optional",
    "root ::= " + "a " * 32 + "\na ::= [a-z ]?": "optional",
    "root ::= " + " ".join(['"a"?'] * 300): "optional parts",
    'root ::= ("a" | ){30}': "optional parts",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_read_or_costs_too_much_is_refused_with_what_is_wrong(text):
    assert REFUSED[text] in refusal(text)


@pytest.mark.parametrize("value", [None, 1, True, [], {}, ["root"]])
def test_a_grammar_is_a_text(value):
    refusal(value)


def test_as_many_classes_side_by_side_as_are_bearable():
    checked("grammar", "root ::= " + " ".join(["[a-z ]*"] * MOST_OPEN_CLASSES))

    assert "it has 13" in refusal("root ::= " + " ".join(["[a-z ]*"] * (MOST_OPEN_CLASSES + 1)))


def test_as_many_optional_parts_as_are_bearable():
    checked("grammar", "root ::= " + " ".join(['"a"?'] * MOST_OPTIONAL))

    assert "it has 25" in refusal("root ::= " + " ".join(['"a"?'] * (MOST_OPTIONAL + 1)))


PARTS = st.sampled_from(
    ['"a"', "[a-z]", "a", "b", "root", "(", ")", "|", "*", "+", "?", "{2}", "{0,3}", "::=", "\n", "."]
)


@given(st.lists(PARTS, max_size=30))
def test_any_text_is_taken_or_refused(parts):
    with contextlib.suppress(Refused):
        checked("grammar", "root ::= " + " ".join(parts))
