"""Telemetry: one log event per request without prompt text, and Prometheus metrics per layer."""
