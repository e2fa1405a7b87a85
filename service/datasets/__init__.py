"""Data sets: uploaded, registered where they lie, or built in; validated before anyone trains."""
