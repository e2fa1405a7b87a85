"""What a job would be and how long it would take, before it is submitted."""
