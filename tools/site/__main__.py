"""Build the site with `make docs`, or the committed reference with `make reference`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site import api, job_spec
from tools.site.markdown import code

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "docs"
PAGES = BUILD / "pages"
"""All pages in the same relative places as in the repository, so that links hold in both."""
SITE = BUILD / "site"
JOB_SPEC_PAGE = Path("docs/reference/job-spec.md")
API_PAGE = Path("docs/reference/api.md")
_REMOTE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?https?://[^\s\">]+")

_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Front matter of long lists that would otherwise come before the pages that explain."""


def main() -> None:
    """Build the site, or only the committed reference if the argument is `reference`."""
    if sys.argv[1:] == ["reference"]:
        (ROOT / JOB_SPEC_PAGE).write_text(job_spec.build_page())
    else:
        build_site()


def build_site() -> None:
    """Build the site, and exit with an error if a link is broken or it loads anything remote."""
    _stage()
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=False
    )
    if built.returncode:
        sys.exit("The site was not built: fix the links above.")
    if remote := _find_remote_assets():
        sys.exit("The site must work offline, but loads:\n" + "\n".join(remote))
    site = SITE.relative_to(ROOT)
    print(f"Built {site}. To read it: python3 -m http.server -d {site} 8000")


def _stage() -> None:
    shutil.rmtree(BUILD, ignore_errors=True)
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "bench/README.md"):
        target = PAGES / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    for name in ("docs", "examples", "bench/results"):
        shutil.copytree(ROOT / name, PAGES / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).parent / "site.css", PAGES)
    for page in (PAGES / "CHANGELOG.md", *(PAGES / "bench" / "results").glob("*.md")):
        page.write_text(_NOT_SEARCHED + page.read_text())
    (PAGES / JOB_SPEC_PAGE).write_text(job_spec.build_page())
    (PAGES / API_PAGE).write_text(api.build_page())
    (PAGES / "examples" / "README.md").write_text(_build_examples_page())


def _build_examples_page() -> str:
    parts = ["# Examples\n\nSpecs that run unchanged; `redkiln submit FILE --watch` submits one.\n"]
    for path in sorted((ROOT / "examples").glob("*.*")):
        language = "python" if path.suffix == ".py" else "yaml"
        parts.append(f"## {code(path.name)}\n\n```{language}\n{path.read_text()}```\n")
    parts.append("## Scripts\n\nPrograms for the task `script`: [scripts](scripts/README.md).\n")
    return "\n".join(parts)


def _find_remote_assets() -> list[str]:
    return [
        f"{page.relative_to(SITE)}: {tag}"
        for page in sorted(SITE.rglob("*.html"))
        for tag in _REMOTE.findall(page.read_text())
        if "rel=canonical" not in tag
    ]


if __name__ == "__main__":
    main()
