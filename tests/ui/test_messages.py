"""Columns of messages, packed in Python and unpacked in a real browser, and back."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

from astranb.widgets.assets import MODULES
from astranb.widgets.feed import COLUMNS, pack

if TYPE_CHECKING:
    from playwright.sync_api import Browser

READ = """async ([text, messages]) => {
  const { pack, unpack } = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const view = (packed) => new DataView(Uint8Array.from(atob(packed), (c) => c.charCodeAt(0)).buffer);
  const found = {};
  for (const [message, buffers] of Object.entries(messages)) {
    const columns = unpack(message, buffers.map(view));
    const text = (one) => btoa(String.fromCharCode(...new Uint8Array(one.buffer)));
    const again = pack(message, columns).map(text);
    found[message] = [Object.entries(columns).map(([name, array]) => [name, Array.from(array)]), again];
  }
  return found;
}"""


def test_every_column_arrives_as_it_was_packed(browser: Browser) -> None:
    rng = np.random.default_rng(6)
    sent = {
        message: {name: rng.integers(0, 256, size=k + 3).tolist() for k, name in enumerate(columns)}
        for message, columns in COLUMNS.items()
    }
    packed = {
        message: [base64.b64encode(buffer).decode() for buffer in pack(message, **columns)]
        for message, columns in sent.items()
    }
    page = browser.new_page()
    found = page.evaluate(READ, [MODULES["messages"], packed])
    page.close()
    for message, columns in sent.items():
        assert found[message] == [[[name, values] for name, values in columns.items()], packed[message]]
