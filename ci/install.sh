#!/usr/bin/env bash
# Gets sluice for action.yml, into the folder SLUICE_BIN. These environment variables say from where:
#   ACTION_PATH        the action's files
#   ACTION_REPOSITORY  the repository of the action, OWNER/NAME
#   ACTION_REF         the ref of the action that the workflow names
#   GITHUB_SERVER_URL  the server that has the releases
# "install.sh release" downloads the release of that ref, and checks its sum. It writes found=true or found=false, and a key for the cache of
# a build, to GITHUB_OUTPUT. "install.sh build" builds.
set -euo pipefail

# sha256 prints or checks sums; macOS has another program for them.
sha256() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$@"
  else
    shasum --algorithm 256 "$@"
  fi
}

# without says that there is no release, and writes the key for the cache of a build: the sum of all files of the action.
without() {
  local key
  key=$(cd "$ACTION_PATH" && find . -type f -not -path './.git/*' -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256 | cut -d ' ' -f 1)
  [[ $key =~ ^[0-9a-f]{64}$ ]] || { echo "no sum of the files of the action: $key" >&2; exit 1; }
  echo "found=false" >>"$GITHUB_OUTPUT"
  echo "key=$key" >>"$GITHUB_OUTPUT"
}

release() {
  local os arch name url
  os=$(uname -s | tr '[:upper:]' '[:lower:]')
  arch=$(uname -m)
  case $arch in
    x86_64) arch=amd64 ;;
    aarch64) arch=arm64 ;;
  esac
  name=sluice_${ACTION_REF}_${os}_$arch.tar.gz
  url=$GITHUB_SERVER_URL/$ACTION_REPOSITORY/releases/download/$ACTION_REF
  mkdir -p "$SLUICE_BIN"
  cd "$SLUICE_BIN"
  # A branch or a commit has no release, and a release may lack this platform.
  if [[ ! $ACTION_REF =~ ^v[0-9] ]] || ! curl -fsSL --retry 2 -o checksums.txt "$url/checksums.txt" || ! grep -qF "  $name" checksums.txt; then
    without
    return
  fi
  curl -fsSL --retry 2 -o "$name" "$url/$name"
  # grep finds the line of this file, and an empty list is an error.
  grep -F "  $name" checksums.txt | sha256 --check -
  tar -xzf "$name"
  rm "$name" checksums.txt
  echo "found=true" >>"$GITHUB_OUTPUT"
}

build() {
  echo "building sluice: 3 to 7 minutes, once for each version of the action; later runs take it from the cache"
  cd "$ACTION_PATH"
  CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags "-s -w -X sluice.dev/internal/cli.sluiceVersion=$ACTION_REF" -o "$SLUICE_BIN/sluice" ./cmd/sluice
}

"$1"
