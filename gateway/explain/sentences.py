"""Rules in words."""

_SENTENCES: dict[str, str] = {
    "exact": "The very same request is stored, alive and allowed.",
    "semantic": "A stored question with the same answer is alive and allowed, and within the error budget.",
    "off": "The cache is off for this route, or the request switched it off.",
    "live_data": "The request asks for live data, such as a web search; such answers are never stored.",
    "transfer": "The request carries a transfer between model servers, which is never stored.",
    "diagnostics": "The request asks for diagnostics of a real run.",
    "prewarm": "The request asks for no token: it only warms the model's own prompt cache.",
    "request": "The request says that no stored answer may be used.",
    "absent": "No answer is stored under this key.",
    "store_unavailable": "Redis does not answer.",
    "corrupt": "What is stored under this key is not authentic.",
    "copy": "The stored answer was found by meaning, which this request or its route no longer accepts.",
    "expired": "The stored answer has outlived its time to live.",
    "purged": "A purge names the stored answer.",
    "soft_purged": "A soft purge made the stored answer stale, and the request does not accept stale ones.",
    "max_age": "The stored answer is older than the request accepts.",
    "min_fresh": "The stored answer has less life left than the request asks for.",
    "max_stale": "The stored answer is past its life, and the request accepts that.",
    "revalidating": "The stored answer is past its life; it may answer while a fresh one is fetched.",
    "clock": "The stored answer claims to be from the future.",
    "guard": "Today's guards would not let this answer be stored.",
    "observe": "The route only observes: there is an answer, and it is not served.",
    "mode": "The route's mode does not compare meaning.",
    "caller_key": "The request brings a key of its own, so only that key counts.",
    "no_service": "No semantic service is set up.",
    "unclean": "A guard keeps this question away from the semantic layer.",
    "semantic_none": "No stored question is near.",
    "semantic_unsure": "The verifier holds the same answer for too unlikely.",
    "semantic_unjudged": "The nearest question was not judged by the verifier.",
    "semantic_loading": "This worker has just begun to read what the error budget has learnt; ask again.",
    "semantic_learn": "The error budget asks the model until it has learnt how often such a hit is right.",
    "semantic_audit": "It would be a hit, drawn for comparison with the model's answer.",
    "semantic_suspended": "The error budget has suspended the layer for this tenant and route.",
    "semantic_observe": "The route only observes.",
    "semantic_guard": "Today's guards would not let the stored answer be found by meaning.",
    "semantic_gone": "The nearest row is no longer there.",
    "semantic_foreign": "The service named a row of another place.",
    "semantic_quarantined": "The row is quarantined after feedback.",
    "semantic_corrupt": "The row is not authentic.",
    "semantic_timeout": "The semantic service took too long.",
    "semantic_down": "The semantic service cannot be reached.",
    "semantic_status": "The semantic service answered with an error.",
    "semantic_garbled": "The semantic service's answer makes no sense.",
    "semantic_rows": "The database did not bring the rows.",
}
_VETO = "semantic_veto_"


def sentence(rule: str) -> str:
    """What a rule means, for people."""
    if rule in _SENTENCES:
        return _SENTENCES[rule]
    if rule.startswith(_VETO):
        return f"The nearest question differs in what its answer hangs on: veto {rule.removeprefix(_VETO)}."
    plain = rule.removeprefix("semantic_")
    if plain in _SENTENCES:
        return f"Nearest question: {_SENTENCES[plain]}"
    return f"The question cannot be compared by meaning: {rule}."
