#!/bin/sh
# Prints a Python that Lamina runs on (3.11 or 3.12, with venv), or says what to do and fails.
# $PYTHON, when set, is the only candidate.
set -u

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' >/dev/null 2>&1
}

has_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

real() {
    "$1" -c 'import sys; print(sys.executable)'
}

without_venv=""
seen=""
for candidate in ${PYTHON:-python3 python3.12 python3.11 python}; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    version=$("$candidate" -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue
    seen="$seen $candidate=$version"
    fits "$candidate" || continue
    if has_venv "$candidate"; then
        real "$candidate"
        exit 0
    fi
    without_venv=$version
done

{
    if [ -n "$without_venv" ]; then
        minor=$(echo "$without_venv" | cut -d. -f1,2)
        echo "error: Python $without_venv is here, but its venv module is not."
        echo "  Debian, Ubuntu: sudo apt-get install python$minor-venv"
    else
        echo "error: Lamina needs Python 3.11 or 3.12; found:${seen:- none}"
        echo "  Debian 12:      sudo apt-get install python3.11 python3.11-venv"
        echo "  Ubuntu 24.04:   sudo apt-get install python3.12 python3.12-venv"
        echo "  without root:   uv python install 3.12, or pyenv install 3.12"
    fi
    echo "  elsewhere:      make install PYTHON=/path/to/python3.12"
} >&2
exit 1
