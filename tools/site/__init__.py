"""Builds `docs/` into a web site: stage the pages, generate the references, run zensical."""
