#!/bin/sh
# Tests and measures the GPU path on a machine with torch and a CUDA device, in at most ten minutes.
#
#   scripts/gpu_check.sh FOLDER [ARGUMENTS OF python -m bench.gpu]
#
# FOLDER gets tests.txt, tests.json and bench_gpu.json. PYTHON names the interpreter (default: .venv's, else python3);
# WHEELS names a folder of wheels for what it lacks, where no package index can be reached.
set -u

here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?"usage: scripts/gpu_check.sh FOLDER [arguments of python -m bench.gpu]"}
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here" || exit 2

python=${PYTHON:-}
if [ -z "$python" ]; then
    python=python3
    [ -x .venv/bin/python ] && python=.venv/bin/python
fi

# What the engine and its tests import beside torch; what is missing is installed into FOLDER.
needs="gguf safetensors tokenizers jinja2 prometheus_client llguidance numpy pytest"
# shellcheck disable=SC2086  # lists of words
missing=$("$python" - $needs <<'PY'
import importlib.util, sys
print(*(name.replace("_", "-") for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
PY
)
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    "$python" -m pip install -q --target "$out/site" ${WHEELS:+--no-index --find-links "$WHEELS"} --no-deps $missing ||
        echo "gpu_check: not installed: $missing" >&2
    PYTHONPATH="$out/site${PYTHONPATH:+:$PYTHONPATH}"
    export PYTHONPATH
fi

"$python" - >"$out/machine.json" <<'PY'
import json, torch
cuda = torch.cuda.is_available()
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda,
                  "device": torch.cuda.get_device_name(0) if cuda else None,
                  "capability": torch.cuda.get_device_capability(0) if cuda else None}))
PY
cat "$out/machine.json"

# Without a GPU, which is to try this script, Triton's interpreter is too slow for all of them.
marked="not none"
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || marked="not slow" TRITON_INTERPRET=1
export TRITON_INTERPRET

began=$(date +%s)
# Apart from the project's own settings, which need the gateway's packages.
timeout 240 "$python" -m pytest -q -p no:cacheprovider --noconftest --import-mode importlib -m "$marked" --maxfail 20 \
    -o addopts= -o filterwarnings=default tests/engine/attention tests/engine/cuda >"$out/tests.txt" 2>&1
tests=$?
tail -n 5 "$out/tests.txt"
printf '{"exit": %d, "seconds": %d, "last": "%s"}\n' "$tests" $(($(date +%s) - began)) \
    "$(tail -n 1 "$out/tests.txt" | tr -d '"\\')" >"$out/tests.json"

timeout 330 "$python" -m bench.gpu --json --out "$out" "$@"
bench=$?
[ "$tests" -eq 0 ] && [ "$bench" -eq 0 ]
