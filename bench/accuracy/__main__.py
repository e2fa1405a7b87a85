"""`python -m bench.accuracy tables|images`: how good default jobs are."""

import sys

from bench.accuracy import images, tables

MAINS = {"tables": tables.main, "images": images.main}

if len(sys.argv) < 2 or sys.argv[1] not in MAINS:
    sys.exit(
        "usage: python -m bench.accuracy tables [--only NAME] [--model NAME] [--seed N]\n"
        "       python -m bench.accuracy images [--train N] [--test N] [--only JOB]"
    )
MAINS[sys.argv[1]](sys.argv[2:])
