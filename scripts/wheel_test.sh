#!/bin/sh
# Build the wheel, install it alone (core dependencies only) in an empty environment, and join two batches with it.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
python=$root/.venv/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$work" .
"$python" -m venv "$work/venv"
# The locked versions as constraints; without their hashes, since the wheel that was just built has none.
sed -e '/--hash=/d' -e 's/ *\\$//' requirements/dev.lock >"$work/versions.txt"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --constraint "$work/versions.txt" "$work"/slidejoin-*.whl
cd "$work" # away from the sources: only the wheel can be imported
# No process stays behind that writes into a folder which is being removed.
SLIDEJOIN_COMPILE=now NUMBA_CACHE_DIR=$work/numba "$work/venv/bin/python" -I "$root/scripts/wheel_join.py"
