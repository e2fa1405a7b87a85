"""What a person gives the command line: paths, spec files, table options, names of jobs."""
