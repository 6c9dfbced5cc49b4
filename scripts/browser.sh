#!/bin/sh
# Print the path of a browser for the browser tests.
#
#   scripts/browser.sh [--install] [chromium | firefox]
#
# Chromium where none is named. ASTRANB_CHROMIUM or ASTRANB_FIREFOX names one; else the usual names are
# looked up. With --install the system's package is installed where there is none (as root, or through sudo).
# Exit 2: there is none.
set -eu

install=
if [ "${1:-}" = --install ]; then
    install=yes
    shift
fi
case "${1:-chromium}" in
chromium)
    browser=Chromium variable=ASTRANB_CHROMIUM named=${ASTRANB_CHROMIUM:-}
    package=chromium others=google-chrome
    set -- chromium chromium-browser google-chrome google-chrome-stable \
        '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
    ;;
firefox)
    browser=Firefox variable=ASTRANB_FIREFOX named=${ASTRANB_FIREFOX:-}
    package=firefox-esr others=firefox
    set -- firefox-esr firefox /Applications/Firefox.app/Contents/MacOS/firefox
    ;;
*)
    echo "astranb: no browser of the tests is called '$1'" >&2
    exit 2
    ;;
esac

find_browser() {
    if [ -n "$named" ]; then
        command -v "$named"
        return
    fi
    for name in "$@"; do
        command -v "$name" && return
    done
    return 1
}

fail() {
    echo "astranb: the browser tests need $browser: $1" >&2
    exit 2
}

find_browser "$@" && exit 0
[ -z "$named" ] || fail "$variable names '$named', which cannot be run"
[ -n "$install" ] || fail "install $package or $others, or set $variable to one"
command -v apt-get >/dev/null || fail "install $package or $others, or set $variable to one"

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    # Without a terminal nobody can type a password: fail instead of waiting for it.
    if [ -t 0 ]; then as_root=sudo; else as_root='sudo -n'; fi
else
    fail "ask an administrator for 'apt-get install $package', or set $variable to one"
fi

echo "astranb: installing $browser for the browser tests (once)" >&2
{
    $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            "$package" fonts-dejavu-core fonts-liberation
} >&2 || fail "'apt-get install $package' failed; install one by hand, or set $variable to one"
find_browser "$@" || fail "the package '$package' brought no program of that name; set $variable to one"
