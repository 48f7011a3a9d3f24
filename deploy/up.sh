#!/bin/sh
# Brings the whole stack up and prints its first API key, once. Safe to run again: nothing is made twice.
set -eu
cd "$(dirname "$0")/.."

if ! docker compose version >/dev/null 2>&1; then
    echo "error: this needs Docker with Compose 2.24 or newer (docker compose version)" >&2
    exit 1
fi
sh deploy/secrets.sh
docker compose build
docker compose run --rm init
docker compose up --detach --wait
echo "Grafana: http://127.0.0.1:${LAMINA_GRAFANA_PORT:-3000}, user admin, password in deploy/secrets/grafana_password"
