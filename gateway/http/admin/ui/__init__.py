"""The dashboard under `/admin/ui`: pages rendered here, from what the API tells. docs/dashboard.md."""
