"""Somebody who reads a page: looks, clicks, types, and hears what the browser complains about."""

import json


class Reader:
    """A page in Chromium.

    Args:
        chromium: driven by selenium.
        path: of the page.
        width: of the window, in pixels.
        theme: that the reader's system prefers, ``light`` or ``dark``.
    """

    def __init__(self, chromium, path, *, width=1280, theme="light"):
        self.chromium = chromium
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        preference = {"name": "prefers-color-scheme", "value": theme}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [preference]})
        chromium.get("about:blank")
        for kind in ("browser", "performance"):
            chromium.get_log(kind)  # what an earlier page said is not about this one
        chromium.get(path.as_uri())

    def ask(self, script, *arguments):
        """The value of an expression."""
        return self.chromium.execute_script(f"return {script}", *arguments)

    def click(self, selector):
        self.ask(
            "document.querySelector(arguments[0]).dispatchEvent("
            "new MouseEvent('click', {bubbles: true}))",
            selector,
        )

    def choose(self, field, value):
        """Set a filter as a reader does, by its field."""
        self.ask(
            "((field, value) => { field.value = value; field.dispatchEvent(new Event('input', "
            "{bubbles: true})) })(document.getElementById(arguments[0]), arguments[1])",
            field,
            value,
        )

    def text(self, selector):
        return self.ask("document.querySelector(arguments[0]).textContent", selector)

    def rows(self):
        """The nodes in view, from the top."""
        return self.ask("[...document.querySelectorAll('tr.node')].map(r => +r.dataset.node)")

    def matches(self):
        """How many nodes the table holds."""
        return int(self.text("#matches").split(" of ")[0].replace(",", ""))

    def complaints(self):
        return [entry["message"] for entry in self.chromium.get_log("browser")]

    def fetched(self):
        """Addresses that were asked for."""
        said = [json.loads(entry["message"]) for entry in self.chromium.get_log("performance")]
        sent = [entry["message"] for entry in said]
        return [
            entry["params"]["request"]["url"]
            for entry in sent
            if entry["method"] == "Network.requestWillBeSent"
        ]
