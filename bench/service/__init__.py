"""Benchmarks of the service: requests, downloads, latency of jobs and scripts."""
