"""The service: owns jobs, data sets, artifacts and leases. Runs from source; imports no worker code."""
