"""Code bundles: the uploaded code of scripts, by digest."""
