#!/bin/sh
# Print the path of a Chromium for the browser tests.
#
#   scripts/browser.sh [--install]
#
# ASTRANB_CHROMIUM names one; else the usual names are looked up. With --install the system's
# package is installed where there is none (as root, or through sudo). Exit 2: there is none.
set -eu

find_browser() {
    if [ -n "${ASTRANB_CHROMIUM:-}" ]; then
        command -v "$ASTRANB_CHROMIUM"
        return
    fi
    for name in chromium chromium-browser google-chrome google-chrome-stable \
        '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'; do
        command -v "$name" && return
    done
    return 1
}

fail() {
    echo "astranb: the browser tests need Chromium: $1" >&2
    exit 2
}

find_browser && exit 0
[ -z "${ASTRANB_CHROMIUM:-}" ] || fail "ASTRANB_CHROMIUM names '$ASTRANB_CHROMIUM', which cannot be run"
[ "${1:-}" = --install ] || fail "install chromium or google-chrome, or set ASTRANB_CHROMIUM to one"
command -v apt-get >/dev/null || fail "install chromium or google-chrome, or set ASTRANB_CHROMIUM to one"

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    # Without a terminal nobody can type a password: fail instead of waiting for it.
    if [ -t 0 ]; then as_root=sudo; else as_root='sudo -n'; fi
else
    fail "ask an administrator for 'apt-get install chromium', or set ASTRANB_CHROMIUM to one"
fi

echo "astranb: installing Chromium for the browser tests (once)" >&2
{
    $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            chromium fonts-dejavu-core fonts-liberation
} >&2 || fail "'apt-get install chromium' failed; install one by hand, or set ASTRANB_CHROMIUM to one"
find_browser || fail "the package 'chromium' brought no program of that name; set ASTRANB_CHROMIUM to one"
