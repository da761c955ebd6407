#!/bin/sh
# Records, measures, checks and labels: see README.md. Usage: run.sh OUT [options of record.py]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ]; then
    echo "usage: $0 OUT [options of record.py]" >&2
    exit 2
fi
program=${INFEROSCOPE:-$root/target/release/inferoscope}
exec "${PYTHON:-python3}" "$here/record.py" --inferoscope "$program" --out "$@"
