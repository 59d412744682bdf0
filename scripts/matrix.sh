#!/bin/sh
# The tests marked smoke on other versions of Spark than the locked one: scripts/matrix.sh 4.1 4.2 …
# MARKS replaces the marks: MARKS=smoke adds the long tests; TESTS the folders.
# Each version of pyspark lies in a folder of its own, in front of the locked one on the path; all else is the same.
set -u
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
status=0

for version in "$@"; do
    folder=$PWD/.cache/matrix/$version
    if [ ! -e "$folder/.ready" ]; then
        rm -rf "$folder"
        echo "== installing pyspark $version, 450 MB, once"
        "$python" -m pip install --quiet --disable-pip-version-check --no-input --target "$folder" \
            "pyspark==$version.*" && touch "$folder/.ready" || { status=1; continue; }
    fi
    echo "== tests marked smoke, pyspark $(PYTHONPATH=$folder "$python" -c 'import pyspark; print(pyspark.__version__)')"
    # Tables of Delta and Iceberg, whose connectors need an older Spark, are tested here alone.
    PYTHONPATH=$folder "$python" -m pytest --quiet -n 0 -m "${MARKS:-smoke and not nightly}" \
        ${TESTS:-tests/spark tests/cli/test_lake_tables.py} || status=1
done
exit "$status"
