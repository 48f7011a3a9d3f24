"""Refusal by its opening words: one cheap signal; tests/policies/test_refusal.py states its recall and precision.

A refusal that is stored would be replayed to every later asker; a false alarm only costs a miss.
"""

import re

_OPENERS = re.compile(
    r"""\s*(?:
      (?:i'm|i\ am)\ (?:very\ |so\ |really\ |deeply\ )?(?:sorry|afraid|unable|not\ able|not\ comfortable)
    | (?:i\ )?apologi[sz]e
    | (?:my\ )?apologies\b
    | sorry\b
    | unfortunately,?\ i\b
    | (?:no,?\ )?i\ (?:can't|can\ ?not|will\ not|won't|must\ refuse)\b
    | i\ (?:must|have\ to)\ decline
    | i\ (?:do\ not|don't)\ feel\ comfortable
    | (?:i'm|i\ am)\ (?:just\ |only\ )?an?\ (?:ai|artificial\ intelligence|language\ model)\b
    | as\ an?\ (?:ai|artificial\ intelligence|language\ model|responsible)\b
    | it(?:'s|\ is)\ (?:not\ (?:appropriate|ethical|legal)|illegal|unethical|inappropriate)
    | it\ is\ not\ possible\ for\ me
    | we\ cannot
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_LOOKED_AT_CHARS = 200


def looks_like_refusal(text: str) -> bool:
    """Whether the answer opens as refusals do; English only."""
    opening = text[:_LOOKED_AT_CHARS].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return _OPENERS.match(opening) is not None
