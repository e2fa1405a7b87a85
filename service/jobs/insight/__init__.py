"""What a job did: its results by class, its mistakes, and what its spec changed."""
