#!/usr/bin/env bash
# Chromium for the tests of pages (tests/browser): Debian's package, as root. Without it these tests are skipped, so this
# never fails: it tells why where it could not.
set -uo pipefail
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup_browser: no Chromium, and this is not root on Debian: tests of pages will be skipped" >&2
    exit 0
fi
log="$(mktemp)"
echo "setup_browser: installing chromium (a minute)"
{ timeout 300 apt-get update && DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install --yes --no-install-recommends chromium; } >"$log" 2>&1 ||
    { tail -n 3 "$log" && echo "setup_browser: apt-get failed: tests of pages will be skipped"; } >&2
rm -f "$log"
