"""The agent: claims attempts, runs their trainer as a child, reports. It never imports torch."""
