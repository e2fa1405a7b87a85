"""Trains one job from its job directory: no Celery, no HTTP, no credentials."""
