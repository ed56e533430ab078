#!/usr/bin/env python3
"""Measures how soon Chromium shows the page of a running server, each time in a fresh profile.

    .venvs/clients/bin/python scripts/measure_first_paint.py [--url http://127.0.0.1:8000] [--loads 20]

Prints milliseconds from the navigation's beginning to the first paint with content, and the bytes that
had come by the load event, as sent and as gzip would make them. What the page may weigh is held by
tests/serve_page_test.py; time depends on the machine, so no test holds it.
"""

import argparse
import gzip
import os
import shutil
import statistics
import sys

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sys.exit("measure_first_paint: playwright is not there; run `make test-clients`, then use .venvs/clients/bin/python")

# Resolves when there has been a first paint with content.
FIRST_PAINT = """() => new Promise((resolve) => {
  const observer = new PerformanceObserver((list) => {
    const found = list.getEntriesByName('first-contentful-paint');
    if (found.length > 0) resolve(found[0].startTime);
  });
  observer.observe({type: 'paint', buffered: true});
})"""


def load(browser, url):
    """(milliseconds, bytes, bytes compressed) of one load."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        responses = []
        page.on("response", lambda response: responses.append(response))
        page.goto(url, wait_until="load")
        time = page.evaluate(FIRST_PAINT)
        bodies = [each.body() for each in responses if each.ok]
        return time, sum(map(len, bodies)), sum(len(gzip.compress(each)) for each in bodies)
    finally:
        context.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--loads", type=int, default=20)
    args = parser.parse_args()
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("measure_first_paint: Chromium is not there; run scripts/install_deps.sh browser")
    with sync_playwright() as driver:
        # Chromium's own sandbox does not work for root.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        load(browser, args.url)  # the browser's own first start
        loads = [load(browser, args.url) for _ in range(args.loads)]
        browser.close()
    times = sorted(time for time, _, _ in loads)
    print(f"first paint of {args.loads} loads: median {statistics.median(times):.0f} ms, "
          f"fastest {times[0]:.0f} ms, slowest {times[-1]:.0f} ms")
    print(f"bytes until the load event: {loads[-1][1]:,}, compressed {loads[-1][2]:,}")


if __name__ == "__main__":
    main()
