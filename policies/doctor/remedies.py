"""What to do about each kind of divergence."""

from collections.abc import Mapping

REMEDIES: Mapping[str, str] = {
    "time": "Move the time behind all that stays the same, into the last user turn, or round it to the day.",
    "id": "Leave the id out of the prompt, or put it into the last user turn or a header; models rarely need it.",
    "number": "Move the changing number behind what stays the same.",
    "json_order": "Write JSON with sorted names and fixed spacing, so that equal objects are equal texts.",
    "tools_order": "List tools in a fixed order, for instance by name.",
    "tools": "Offer the same tools in every request, and say which may be used now by tool_choice or in a turn.",
    "whitespace": "Build the prompt from one template, so that line ends and spaces are always the same.",
    "unicode": "Normalise texts (NFC) before they go into the prompt.",
    "case": "Write the words that differ in letter case alone one way.",
    "truncated": "Drop old turns in large steps, or sum them up once: each cut costs the whole history.",
    "edited": "Append corrections as new turns in place of changing earlier ones.",
    "variable": "Put what changes (names, passages, user data) behind the instructions that stay the same.",
    "template": "Keep the instructions in one message at the beginning.",
}
"""By kind; those that cost nothing have none."""
