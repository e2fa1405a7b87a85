"""The worker: claims attempts, trains, exports. Runs from source; imports no service code."""
