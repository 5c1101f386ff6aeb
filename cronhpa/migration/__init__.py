"""Other autoscalers' objects as CronHPA manifests, and back. Pure: documents in, documents and remarks out."""
