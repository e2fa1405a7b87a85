"""Trains on a folder, zip or tar of images, or on a built-in set, and downloads the results.

    python examples/train_and_download.py                    # scikit-learn's digits
    python examples/train_and_download.py ~/flowers out/flowers

The service runs on this machine (`make up`), or at REDKILN_URL.
"""

import sys
from pathlib import Path

import redkiln


def main(source: str, folder: Path) -> int:
    """Train on `source`, put the artifacts into `folder`, and return the exit status."""
    with redkiln.Client() as client:
        dataset = source
        if not source.startswith("builtin:"):
            dataset = client.push_dataset(source, wait=True).id

        job = client.submit({"dataset": dataset, "training": {"epochs": 5}})
        print(f"queued {job.name} ({job.id})")

        for update in client.watch(job.id):
            progress = getattr(update, "progress", None)
            if progress and progress.step:
                print(f"\repoch {progress.epoch}/{progress.epochs}, step {progress.step}", end="")
        print()

        ended = client.job(job.id)
        if ended.status != "succeeded":
            reason = ended.reason.message if ended.reason else "no reason given"
            print(f"{ended.name} is {ended.status}: {reason}")
            return 1

        for path in client.download_all(job.id, folder):
            print(path)
        model = next(item for item in client.artifacts(job.id) if item.kind == "model")
        print("verified against torch" if model.verified else "UNVERIFIED, see report.md")
        return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    raise SystemExit(
        main(
            arguments[0] if arguments else "builtin:digits",
            Path(arguments[1]) if len(arguments) > 1 else Path("out/example"),
        )
    )
