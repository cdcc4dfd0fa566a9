"""The languages that can be told apart: the labels of lid.176, ISO 639 codes of two or three letters."""

from __future__ import annotations

import difflib
from typing import Any

_CODES = """
af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs
cv cy da de diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr
hsb ht hu hy ia id ie ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc
lt lv mai mg mhr min mk ml mn mr mrj ms mt mwl my myv mzn nah nap nds ne new nl nn no oc or os pa
pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah sc scn sco sd sh si sk sl so sq sr su sv sw ta te tg
th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu xal xmf yi yo yue zh
"""
CODES = frozenset(_CODES.split())


def languages(value: Any) -> tuple[str, ...]:
    """A setting's list of codes."""
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        raise ValueError('give a list of languages, such as ["vi", "th"]')
    for at, code in enumerate(value):
        if code not in CODES:
            near = difflib.get_close_matches(code.lower().partition("-")[0], CODES, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else 'give codes such as "vi", "th", "ar"'
            raise ValueError(f"{code!r} is no language that can be told apart: {hint}")
        if code in value[:at]:
            raise ValueError(f"{code!r} stands here twice")
    return tuple(value)
