"""The report of a job: its model card, figures and curve file."""
