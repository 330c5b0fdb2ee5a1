"""Takes the screenshots under docs/pictures: a run's page, a comparison and the index, from runs made for it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from report_browser import Chromium, chromium  # noqa: E402 - the tests' own modules are found by the line above
from sample_runs import write  # noqa: E402 - see above

from lab.compare import facts  # noqa: E402 - see above
from lab.compare.comparison import compare  # noqa: E402 - see above
from lab.report import index, page  # noqa: E402 - see above
from lab.settings import Settings  # noqa: E402 - see above

PICTURES = REPOSITORY / "docs" / "pictures"
SHOTS = (
    ("run-light", "run", 1280, 1800, "light"),
    ("run-dark", "run", 1280, 1800, "dark"),
    ("run-phone", "run", 360, 1500, "light"),
    ("comparison-light", "comparison", 1280, 1800, "light"),
    ("comparison-phone-dark", "comparison", 360, 1500, "dark"),
    ("index-light", "index", 1280, 460, "light"),
)
"""Name, page, width and height of the window, colours."""
LARGEST_BYTES = 300_000


def take(folder: Path = PICTURES) -> list[Path]:
    """Make the pages in a temporary project and write one picture each into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lab-pictures-") as project, chromium() as browser:
        pages = made(Path(project) / "sample-lab")
        return [
            shot(browser, pages[name], folder / f"{picture}.png", width, height, scheme)
            for picture, name, width, height, scheme in SHOTS
        ]


def made(project: Path) -> dict[str, Path]:
    """Three runs of one declared change and a failure, and the pages about them."""
    settings = Settings(project=project, runs=Path("runs"), store=Path("store"))
    runs = settings.runs_folder
    runs.mkdir(parents=True)
    steps = {"steps": 200, "warmup": 10, "every": 25, "observed": frozenset({61, 62})}
    base = write(runs, id="baseline-20261201-0915-aaaa", seconds=0.52, dollars=0.41, **steps)
    faster = write(
        runs,
        id="flex-20261201-0931-bbbb",
        overrides=("attention=flex",),
        seconds=0.43,
        peak=36_500_000_000,
        loss_floor=2.99,
        dollars=0.34,
        **steps,
    )
    write(runs, id="flex-20261201-0925-cccc", overrides=("attention=flex",), status="failed", failed_stage="train")
    comparison = project / "comparison.html"
    comparison.write_text(page.comparison_page(compare([facts.read(base), facts.read(faster)])), encoding="utf-8")
    page.write(base)
    return {"run": page.write(faster), "comparison": comparison, "index": index.write_index(settings)}


def shot(browser: Chromium, source: Path, picture: Path, width: int, height: int, scheme: str) -> Path:
    """The upper part of a page as a PNG; it fails where a page complains or a picture is too large to keep."""
    with browser.open(source, width, scheme) as found:
        found.page.set_viewport_size({"width": width, "height": height})
        found.page.screenshot(path=str(picture), animations="disabled")
        if found.complaints:
            raise SystemExit(f"{source.name}: {found.complaints}")
    if picture.stat().st_size > LARGEST_BYTES:
        raise SystemExit(f"{picture.name}: {picture.stat().st_size:,} bytes are too many")
    return picture


if __name__ == "__main__":
    for path in take():
        sys.stdout.write(f"{path.relative_to(REPOSITORY)}  {path.stat().st_size:,} bytes\n")
