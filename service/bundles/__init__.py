"""Code bundles: what scripts are sent as, by digest."""
