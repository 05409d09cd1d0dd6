"""A headless Chromium through chromedriver's HTTP protocol (W3C WebDriver), as far as the console's test needs it."""

import base64
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.ports import free_ports
from tests.waiting import PATIENCE, until

TAB, ENTER = "\ue004", "\ue007"
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


@dataclass(frozen=True, slots=True)
class Browser:
    """One browser session; `at` is its address at chromedriver."""

    client: httpx.Client
    at: str

    def open(self, url: str) -> None:
        self._post("/url", {"url": url})

    def text(self) -> str:
        """What a reader sees of the page."""
        return str(self.value("return document.body.innerText"))

    def value(self, script: str) -> object:
        """What a script in the page gives back (the driver's scripts aren't bound by the page's policy)."""
        return self._post("/execute/sync", {"script": script, "args": []})

    def wait_for(self, selector: str, wanted: str) -> None:
        """Returns once the first such element has this text in it: a page that comes after a form takes a moment."""
        self._wait_until(f"document.querySelector('{selector}')", wanted)

    def wait_for_focus(self, wanted: str) -> None:
        """Returns once what has the focus has this text in it: a browser moves it some time after a page is there."""
        active = "document.activeElement"
        self._wait_until(f"{active} === document.body ? null : {active}", wanted)

    def _wait_until(self, element: str, wanted: str) -> None:
        script = f"const e = {element}; return e && e.innerText"
        try:
            until(lambda: str(self.value(script)), lambda text: wanted in text)
        except AssertionError as late:
            raise AssertionError(f"no {wanted!r} in {element}; the page: {self.text()[:500]}") from late

    def write(self, selector: str, text: str) -> None:
        """Types into a field."""
        element = self._post("/element", {"using": "css selector", "value": selector})
        self._post(f"/element/{element[ELEMENT]}/value", {"text": text})  # type: ignore[index]

    def click(self, selector: str) -> None:
        """Clicks on the first such element."""
        element = self._post("/element", {"using": "css selector", "value": selector})
        self._post(f"/element/{element[ELEMENT]}/click", {})  # type: ignore[index]

    def press(self, key: str) -> None:
        """Presses one key, wherever the focus is."""
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def log_in(self, site: str, name: str, passphrase: str) -> None:
        """Fills in the login form."""
        self.open(f"{site}/login")
        self.write("#person", name)
        self.write("#passphrase", passphrase)
        self.press(ENTER)

    def dialog(self) -> str | None:
        """The text of an open dialog, None when there is none."""
        answer = self.client.get(f"{self.at}/alert/text")
        return str(answer.json()["value"]) if answer.status_code == 200 else None

    def width(self, pixels: int) -> None:
        """Sets the width of the page, also below the least width of a window."""
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", size)

    def picture(self, path: Path) -> None:
        """A picture of the whole page."""
        answer = self._command("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(answer["data"]))  # type: ignore[index]

    def printed(self) -> str:
        """The page as PDF, in base64."""
        return str(self._post("/print", {"page": {"width": 21.0, "height": 29.7}}))

    def _command(self, name: str, parameters: dict[str, object]) -> object:
        return self._post("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def _post(self, path: str, body: dict[str, object]) -> object:
        answer = self.client.post(f"{self.at}{path}", json=body)
        assert answer.status_code == 200, answer.text[:500]
        return answer.json()["value"]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own; both processes end with the block."""
    port = free_ports(1)
    driver = subprocess.Popen(
        [shutil.which("chromedriver") or "chromedriver", f"--port={port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
            httpx.Client(timeout=PATIENCE) as client,
        ):
            address = f"http://127.0.0.1:{port}"
            _wait(client, address)
            options = {
                "binary": shutil.which("chromium"),
                "args": [*ARGUMENTS, f"--user-data-dir={profile}"],
            }
            body = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
            answer = client.post(f"{address}/session", json=body)
            assert answer.status_code == 200, answer.text[:500]
            at = f"{address}/session/{answer.json()['value']['sessionId']}"
            try:
                yield Browser(client, at)
            finally:
                client.delete(at)
    finally:
        driver.terminate()
        driver.wait(PATIENCE)


def _wait(client: httpx.Client, address: str) -> None:
    def ready() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return bool(client.get(f"{address}/status").json()["value"]["ready"])
        return False

    until(ready, bool)
