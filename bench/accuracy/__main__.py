"""`python -m bench.accuracy NAME`: how good default jobs and their probabilities are."""

import sys

from bench.accuracy import (
    curves,
    detectors,
    few_rows,
    few_texts,
    few_values,
    images,
    intervals,
    labels,
    networks,
    small_sets,
    tables,
    texts,
)
from bench.accuracy.rare import epochs
from bench.accuracy.skewed import targets

MAINS = {
    "tables": tables.main,
    "images": images.main,
    "networks": networks.main,
    "small-sets": small_sets.main,
    "texts": texts.main,
    "curves": curves.main,
    "detectors": detectors.main,
    "labels": labels.main,
    "few-rows": few_rows.main,
    "few-texts": few_texts.main,
    "few-values": few_values.main,
    "rare-epochs": epochs.main,
    "skewed-targets": targets.main,
    "intervals": intervals.main,
}

if len(sys.argv) < 2 or sys.argv[1] not in MAINS:
    sys.exit(
        "usage: python -m bench.accuracy tables [--only NAME] [--model NAME] [--seed N]\n"
        "       python -m bench.accuracy images [--train N] [--test N] [--only JOB]\n"
        "       python -m bench.accuracy networks [--set NAME] [--model NAME] [--seeds N]\n"
        "       python -m bench.accuracy small-sets [--set NAME] [--choice NAME] [--seeds N]\n"
        "       python -m bench.accuracy texts [--set NAME] [--texts N] [--test N] [--model NAME]\n"
        "       python -m bench.accuracy curves [--only JOB]\n"
        "       python -m bench.accuracy detectors [--only NAME] [--images N] [--epochs N]\n"
        "       python -m bench.accuracy labels [--seeds N]\n"
        "       python -m bench.accuracy few-rows [--rows N] [--ratio N] [--seeds N] [--job NAME]\n"
        "       python -m bench.accuracy few-texts [--set NAME] [--texts N] [--test N]\n"
        "       python -m bench.accuracy few-values [--rows N] [--seeds N] [--job NAME]\n"
        "       python -m bench.accuracy rare-epochs [--rows N] [--share P] [--seed N]\n"
        "       python -m bench.accuracy skewed-targets [--set NAME] [--seeds N] [--first-seed N]\n"
        "       python -m bench.accuracy intervals [--rows N] [--draws N]"
    )
MAINS[sys.argv[1]](sys.argv[2:])
