"""The words that src/ tells its callers, found where they are written: error codes, details, environment variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "foretold"

# Functions whose words are reasons: why a query passes, why a record is not used, why an answer is not kept.
_REASONS = {
    "contract/inputs.py": {"must_pass"},
    "contract/storable.py": {"why_not", "_why_not_choice", "_why_not_text", "_why_not_message"},
    "flights/landing.py": {"record_of", "_judged"},
    "tiers/keeping.py": {"keep"},
    "flights/runway.py": {"land"},
    "flights/flight.py": {"_land"},
}
# Details that several modules name.
_CONSTANTS = {"OTHER_REVISION"}


def error_codes() -> set[str]:
    """All that can be an error's `code`, over HTTP and on the command line."""
    found: set[str] = set()
    for _, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "code":
                found |= _texts(node.value)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == "code" for target in targets):
                    found |= _texts(node.value)
    return {text for text in found if text.replace("_", "").isalpha()}


def passing_details() -> set[str]:
    """The words of `detail` that say why a query was not answered from the cache."""
    found: set[str] = set()
    for name, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                match _called(node):
                    case "Unkeyable" | "_unkeyable":
                        found |= {f"unkeyable-{text}" for arg in node.args for text in _texts(arg)}
                    case "Permit":
                        found |= _texts(node.args[4]) if len(node.args) > 4 else set()
                    case "Unusable":
                        found |= _texts(node.args[1]) if len(node.args) > 1 else set()
                    case "_pass":
                        found |= {text for arg in node.args for text in _texts(arg)}
            elif (
                isinstance(node, ast.keyword)
                and node.arg in ("detail", "passes")
                or isinstance(node, ast.Assign)
                and any(getattr(t, "id", "") in _CONSTANTS for t in node.targets)
            ):
                found |= _texts(node.value)
        found |= _returned(tree, _REASONS.get(name, set()) & {"must_pass"})
    return {text for text in found if _is_word(text)}


def not_kept_reasons() -> set[str]:
    """What stands after `not-kept-` in a query's log line."""
    found: set[str] = set()
    for name, tree in _trees():
        found |= _returned(tree, _REASONS.get(name, set()) - {"must_pass"})
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Attribute) and target.attr == "why_not_kept" for target in node.targets
            ):
                found |= _texts(node.value)
    return {text for text in found if _is_word(text)}


def beginnings() -> set[str]:
    """What stands before a word that is only known at run time, such as `not-kept-`."""
    found: set[str] = set()
    for _, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                found.add(str(node.values[0].value))
    return {text for text in found if text.endswith("-") and _is_word(text)}


def environment_variables() -> set[str]:
    """Those of ours wherever they are named, and all others that are looked up."""
    found: set[str] = set()
    for name, tree in _trees():
        for node in ast.walk(tree):
            asked = None
            # What these name so are bindings of the Worker.
            is_text = isinstance(node, ast.Constant) and not name.startswith(("deploy/", "edge/bindings"))
            if is_text and re.fullmatch(r"FORETOLD_[A-Z_]+", str(node.value)):
                found.add(str(node.value))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                asked = (node.func.value, node.args[0]) if node.args else None
            elif isinstance(node, ast.Subscript):
                asked = (node.value, node.slice)
            if asked is not None and isinstance(asked[0], ast.Attribute) and asked[0].attr == "environ":
                found |= _texts(asked[1])
    return found


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(), filename=str(Path(file)))


def _returned(tree: ast.Module, functions: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in functions:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    found |= _texts(inner.value)
    return found


def _texts(value: ast.expr) -> set[str]:
    """The texts an expression can be, or, of a tuple, hold; calls, comparisons and subscripts are not looked into."""
    match value:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=one, orelse=other):
            return _texts(one) | _texts(other)
        case ast.BoolOp(values=values) | ast.Tuple(elts=values):
            return {text for inner in values for text in _texts(inner)}
    return set()


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_word(text: str) -> bool:
    return bool(text) and text.replace("-", "").isalpha() and text.islower()
