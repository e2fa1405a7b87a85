"""The service: owns jobs, data sets, artifacts, leases. Runs from source; imports no worker."""
