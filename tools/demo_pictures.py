"""Draw the pictures of the demo in the documents (`make pictures` after `make demo`): needs Chromium."""

import json
import shutil
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
RESULTS, PICTURES = ROOT / "results", ROOT / "docs/figures"

FIGURES = {name: f"figures/embedded-shared/{name}.png" for name in ("probe", "probe_positions")}
FIGURES["summary"] = "figures/summary.png"

PAGES = {
    "report": (1280, 740, ["report.html"]),
    "explained": (782, 1420, ["explained.html", "explained.html#step-3"]),
    "browser": (1280, 1080, ["browser/embedded-shared.html#operator=multiplication&neuron=4.493"]),
}
"""Width and height of a part, and the parts, by picture. The parts are placed side by side."""

_TEXTS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const { top, bottom, height } = range.getBoundingClientRect();
    texts.push([walker.currentNode.textContent.trim(), height > 0 && top >= 0 && bottom <= innerHeight]);
  }
  return texts.filter(([text]) => text);
}"""


def open_part(tab: Page, part: str, width: int, height: int) -> list[tuple[str, bool]]:
    """Show a part of a page. Returns its texts, and whether each is visible."""
    tab.set_viewport_size({"width": width, "height": height})
    tab.goto("about:blank")
    tab.goto((RESULTS / part.split("#")[0]).as_uri() + "".join(part.partition("#")[1:]))
    tab.wait_for_timeout(500)
    return tab.evaluate(_TEXTS)


def draw_page(tab: Page, name: str) -> None:
    """Write a picture of a page, with the visible texts as its description."""
    width, height, parts = PAGES[name]
    picture, seen = Image.new("RGB", (width * len(parts), height)), []
    for column, part in enumerate(parts):
        seen += [text for text, shown in open_part(tab, part, width, height) if shown]
        tab.screenshot(path=PICTURES / f"{name}.png")
        picture.paste(Image.open(PICTURES / f"{name}.png"), (column * width, 0))
    about = PngInfo()
    about.add_itxt("Description", json.dumps(seen, ensure_ascii=False))
    picture.save(PICTURES / f"{name}.png", pnginfo=about, optimize=True)


if __name__ == "__main__":
    for name, path in FIGURES.items():
        shutil.copy(RESULTS / path, PICTURES / f"{name}.png")
    with sync_playwright() as driver:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page()
        for name in PAGES:
            draw_page(tab, name)
        browser.close()
