"""Everything that the command line renders: panels, pages, tables and words."""
