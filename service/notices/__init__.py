"""Messages to other programs and people when a job ends: webhooks, ntfy, Discord, Slack, mail."""
