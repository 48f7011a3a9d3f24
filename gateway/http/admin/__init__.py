"""The administrator's API under `/admin/`: access first, then FastAPI. docs/admin-api.md says how it grows."""
