#!/bin/sh
# Makes the stack's secrets, each once: a file that is there stays as it is. SECRETS names another folder.
# A file is readable inside the containers that mount it, whatever their user; the folder keeps everybody else out.
set -eu
umask 077

folder=${SECRETS:-$(dirname "$0")/secrets}
mkdir -p "$folder"
chmod 700 "$folder"

random() { od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n'; }

sha256() {
    if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

keep() { # NAME TEXT
    [ -e "$folder/$1" ] && return
    printf '%s\n' "$2" >"$folder/$1.new"
    chmod 444 "$folder/$1.new"
    mv "$folder/$1.new" "$folder/$1"
}

keep lamina_secret "$(random)"
keep master_key "$(random)"
keep admin_key "lam_admin_$(random)"
keep semantic_token "$(random)"
keep postgres_password "$(random)"
keep redis_password "$(random)"
keep grafana_password "$(random)"
keep database_url "postgresql://lamina:$(cat "$folder/postgres_password")@postgres:5432/lamina"
keep redis_url "redis://lamina:$(cat "$folder/redis_password")@redis:6379/0"
# What the gateway does beyond entries: INFO for its checks; BGSAVE and BGREWRITEAOF write Redis's files anew after an erasure.
keep redis_acl "user default off
user lamina on sanitize-payload #$(tr -d '\n' <"$folder/redis_password" | sha256) ~* &* +@all -@admin -@dangerous +info +bgsave +bgrewriteaof"
