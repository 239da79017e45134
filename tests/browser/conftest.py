"""A JupyterLab as `make lab` starts it, a browser, and pages that record each request to another machine."""

import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.lab import QUIET, ROOT


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Copy what `make lab` needs, so that the tests may save notebooks."""
    course = tmp_path_factory.mktemp("course")
    for name in ("notebooks", "data", "benchmarks", "docs", "tools"):
        shutil.copytree(
            ROOT / name,
            course / name,
            ignore=shutil.ignore_patterns(".ipynb_checkpoints", ".progress.json", "incidents"),
        )
    (course / ".venv").symlink_to(ROOT / ".venv")
    return course


@pytest.fixture(scope="module")
def lab(course, tmp_path_factory):
    """Start what `make lab` starts, for a user who has no settings. It needs no token on this port of loopback."""
    home = tmp_path_factory.mktemp("home")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    command = ["sh", "tools/lab.sh", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0"]
    command += ["--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True"]
    with open(home / "server.log", "w") as log:
        server = subprocess.Popen(
            command, cwd=course, env=environment | {"HOME": str(home)}, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{base}/api", timeout=1).close()
                break
            except OSError:
                assert server.poll() is None, (home / "server.log").read_text()
                time.sleep(0.5)
        yield base
    finally:
        server.terminate()
        server.wait(90)  # It ends its kernels first, which takes long on a busy machine.


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), headless=True, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture
def page(lab, browser):
    """Open a page that records every request to another machine."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.outside = []
    ours = re.compile(r"(https?|wss?)://127\.0\.0\.1:|data:|blob:|about:")
    page.on("request", lambda request: None if ours.match(request.url) else page.outside.append(request.url))
    page.set_default_timeout(60_000)
    yield page
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")  # the next test gets a new kernel
    page.close()
