#!/bin/sh
# Write requirements/*.lock: one version of everything for Python 3.11 to 3.14 on Linux and macOS, with hashes.
# Arguments are passed on, for example `scripts/lock.sh --upgrade`. The files name no index, so that any mirror will do.
set -eu
cd "$(dirname "$0")/.."
uv=.venv/bin/uv

# Neither settings nor extra places of this machine may leak into the result.
for setting in $(env | sed -n -e 's/^\(UV_[A-Z_]*\)=.*/\1/p' -e 's/^\(PIP_[A-Z_]*\)=.*/\1/p'); do
    case $setting in
        UV_CACHE_DIR) ;;
        *) unset "$setting" ;;
    esac
done

compile() {
    "$uv" pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header "$@"
}

compile --all-extras --group dev --output-file requirements/dev.lock pyproject.toml "$@"
compile --group bootstrap --constraints requirements/dev.lock --output-file requirements/bootstrap.lock "$@"
grep -c '^[a-z]' requirements/*.lock
