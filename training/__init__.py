"""Training of the small models in `semantic/weights` and `policies/guardrails`; not part of a running Lamina."""
