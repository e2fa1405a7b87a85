"""What the service costs its users: requests, downloads, latency of jobs and scripts."""
