"""Guardrails: rules that say which answers may be stored, and for whom.

A guardrail is one file here and one line in `GUARDRAILS`. It is built from `Material` (the bytes of its data file,
if it names one, and the operator's rule), is pure, runs in linear time and answers with a `Verdict` or None.
`gateway/guards.py` reads the data, runs them under a deadline and turns their verdicts into one decision.
"""

GUARDRAILS: dict[str, str] = {
    "size": "policies.guardrails.size:SizeGuard",
    "secrets": "policies.guardrails.secrets:SecretsGuard",
    "pii": "policies.guardrails.pii:PiiGuard",
    "schema": "policies.guardrails.schema:SchemaGuard",
    "refusal": "policies.guardrails.refusal:RefusalGuard",
    "injection": "policies.guardrails.injection:InjectionGuard",
    "personal": "policies.guardrails.personal:PersonalGuard",
    "time_bound": "policies.guardrails.time_bound:TimeBoundGuard",
    "toxicity": "policies.guardrails.toxicity:ToxicityGuard",
}
"""Name to `module:Class`, in the order in which they are asked: those that forbid most come first."""
