"""The administrator's routes under `/admin/v1/`: nothing there answers without the administrator's key."""
