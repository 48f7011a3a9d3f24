"""The gateway: authenticates a request and answers it from the cheapest layer that may."""
