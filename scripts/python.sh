#!/bin/sh
# Print the newest Python from 3.11 to 3.14 that can make virtual environments.
# As root on Debian or Ubuntu the missing python3-venv is installed; anyone else is told the exact command.
set -eu

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1; }
makes_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

found=
for name in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3 python}; do
    path=$(command -v "$name") && fits "$path" || continue
    if makes_venv "$path"; then
        echo "$path"
        exit 0
    fi
    found=${found:-$path}
done

root() { [ "$(id -u)" = 0 ]; }
sudo=$(root || echo "sudo ")
if [ -z "$found" ]; then
    echo "slidejoin needs Python 3.11, 3.12, 3.13 or 3.14, and none was found${PYTHON:+ under the name PYTHON=$PYTHON}." >&2
    if command -v apt-get >/dev/null; then
        echo "Install one:  ${sudo}apt-get update && ${sudo}apt-get install -y python3 python3-venv" >&2
    elif command -v dnf >/dev/null; then
        echo "Install one:  ${sudo}dnf install -y python3.12" >&2
    elif command -v apk >/dev/null; then
        echo "Install one:  ${sudo}apk add python3 py3-pip" >&2
    elif command -v brew >/dev/null; then
        echo "Install one:  brew install python@3.13" >&2
    fi
    exit 1
fi

version=$("$found" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
package=$version-venv
if command -v apt-get >/dev/null && root; then
    echo "$found cannot make virtual environments (no ensurepip): installing $package" >&2
    apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" >&2
    if makes_venv "$found"; then
        echo "$found"
        exit 0
    fi
    echo "$package is installed, and $found still cannot make virtual environments; name another with PYTHON=" >&2
    exit 1
fi
echo "$found cannot make virtual environments: its module ensurepip is missing." >&2
if command -v apt-get >/dev/null; then
    echo "Install it:  sudo apt-get update && sudo apt-get install -y $package" >&2
else
    echo "Install a complete Python 3.11 to 3.14, or name another one:  make PYTHON=/path/to/python3 ..." >&2
fi
exit 1
