"""`python -m bench.accuracy tables`: compare default jobs on tables with other libraries."""

import sys

from bench.accuracy import tables

if len(sys.argv) < 2 or sys.argv[1] != "tables":
    sys.exit("usage: python -m bench.accuracy tables [--only NAME] [--model NAME] [--seed N]")
tables.main(sys.argv[2:])
