"""TLS material: issue, check, use. Knows nothing of the webhook."""
