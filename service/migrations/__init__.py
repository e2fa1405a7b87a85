"""Alembic's revisions, run at start by the one connection that writes."""
