"""The service owns jobs, data sets, artifacts and leases. It imports no worker code."""
