"""`python -m bench.accuracy tables|images|curves`: how good default jobs are."""

import sys

from bench.accuracy import curves, images, tables

MAINS = {"tables": tables.main, "images": images.main, "curves": curves.main}

if len(sys.argv) < 2 or sys.argv[1] not in MAINS:
    sys.exit(
        "usage: python -m bench.accuracy tables [--only NAME] [--model NAME] [--seed N]\n"
        "       python -m bench.accuracy images [--train N] [--test N] [--only JOB]\n"
        "       python -m bench.accuracy curves [--only JOB]"
    )
MAINS[sys.argv[1]](sys.argv[2:])
