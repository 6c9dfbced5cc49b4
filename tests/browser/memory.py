"""More memory than a page has: Python says so, and what it sends is right up to there."""


def main(_given: str) -> None:
    """Take memory until there is none."""
    import page_port  # type: ignore[import-not-found]  # a module of the page
    from pyodide.ffi import to_js  # type: ignore[import-not-found]

    kept = []
    try:
        while True:
            kept.append(bytearray(100_000_000))
    except MemoryError:
        kept.pop()
    last = bytes([1, 2, 3, 4]) * 1_000_000
    sent = page_port.sum(to_js([memoryview(last)])), page_port.size("😀b" * 50_000)
    print(10**9 < len(kept) * 100_000_000 < 2**31, *sent)
