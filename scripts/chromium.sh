#!/bin/sh
# Print the path of a Chromium that runs here without a screen.
# Where there is none, root on Debian gets the distribution's; anyone else the exact command.
set -eu

names="chromium chromium-browser google-chrome google-chrome-stable chrome"
# OS_RELEASE replaces the usual file, as a test does.
release=${OS_RELEASE-/etc/os-release}

# The path of the program $1 if it starts: Ubuntu's chromium-browser is a script that only names a snap.
runs() {
    path=$(command -v "$1" 2>/dev/null) && "$path" --version >/dev/null 2>&1 && echo "$path"
}

search() {
    for name in $names; do
        runs "$name" && return
    done
    return 1
}

search && exit 0

root() { [ "$(id -u)" = 0 ]; }
has() { command -v "$1" >/dev/null 2>&1; }

# Ubuntu's package needs snap, which a container has not.
if has apt-get && root && grep -q '^ID=debian' "$release" 2>/dev/null; then
    echo "Tests of the live page need Chromium and none was found: installing the distribution's." >&2
    apt-get update -q >&2
    echo "apt-get install chromium" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium >&2
    search && exit 0
    echo "chromium is installed, but does not start." >&2
    exit 1
fi

sudo=$(root || echo "sudo ")
if has apt-get; then
    command="${sudo}apt-get update && ${sudo}apt-get install -y chromium"
elif has dnf; then
    command="${sudo}dnf install -y chromium"
elif has zypper; then
    command="${sudo}zypper install -y chromium"
elif has pacman; then
    command="${sudo}pacman -S --noconfirm chromium"
elif has apk; then
    command="${sudo}apk add chromium"
elif has brew; then
    command="brew install --cask chromium"
else
    command=
fi
echo "Tests of the live page need Chromium, and none was found on the PATH." >&2
if [ -n "$command" ]; then
    echo "Install it:  $command" >&2
else
    echo "Install Chromium or Chrome for this system, with its program on the PATH." >&2
fi
exit 1
