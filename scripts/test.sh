#!/bin/sh
# The tests: first the small part that runs with the kernels as plain Python, then the whole suite, whose closing line
# is the last that is printed. Both run whatever becomes of the other; the exit status is that of the worse one.
# Arguments go to both runs.
set -u
cd "$(dirname "$0")/.."
python=.venv/bin/python
status=0

echo "== tests marked nojit, without compilation"
# Only the modules that have some: to collect all others takes longer than to run these.
marked=$(grep -rl nojit tests --include="test_*.py")
NUMBA_DISABLE_JIT=1 "$python" -m pytest --quiet -m "nojit and not nightly" "$@" $marked || status=$?
echo "== all tests"
"$python" -m pytest "$@" || status=$?
exit "$status"
