"""The dashboard under `/admin/ui`: pages rendered here, from what the administrator's API tells. docs/dashboard.md."""
