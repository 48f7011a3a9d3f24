#!/bin/sh
# Runs install.py with the virtual environment's own Python when that still works, else with one from PATH.
set -eu

here=$(dirname "$0")
venv_python=.venv/bin/python

if [ -z "${PYTHON:-}" ] && "$venv_python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' >/dev/null 2>&1; then
    exec "$venv_python" -I "$here/install.py" "$@"
fi
python=$(sh "$here/python.sh")
exec "$python" -I "$here/install.py" "$@"
