#!/usr/bin/env bash
# The hook of pre-commit. It builds sluice once for each version of the hook, beside this file, or runs the program that SLUICE names. Arguments are
# those of sluice check.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
program=${SLUICE:-$here/.cache/pre-commit/sluice}
if [[ -z ${SLUICE:-} && ! -x $program ]]; then
  if ! command -v go >/dev/null; then
    echo "sluice: the hook needs Go to build sluice; install Go, or set SLUICE to an installed sluice" >&2
    exit 2
  fi
  echo "building sluice: some minutes, once for each version of the hook" >&2
  mkdir -p "$(dirname "$program")"
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags '-s -w' -o "$program.$$" ./cmd/sluice)
  mv "$program.$$" "$program" # several hooks may run at once
fi
exec "$program" check --git HEAD "$@"
