#!/usr/bin/env bash
# Gets sluice for action.yml, into the folder SLUICE_BIN. These environment variables say from where:
#   ACTION_PATH        the action's files
#   ACTION_REPOSITORY  the repository of the action, OWNER/NAME
#   ACTION_REF         the ref of the action that the workflow names
#   GITHUB_SERVER_URL  the server that has the releases
# "install.sh release" downloads the release of that ref, and checks its sum. It writes found=true or found=false, and a key for the cache of
# a build, to GITHUB_OUTPUT. "install.sh build" builds.
set -euo pipefail

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
  # A branch or a commit has no release.
  if [[ ! $ACTION_REF =~ ^v[0-9] ]] || ! curl -fsSL --retry 2 -o checksums.txt "$url/checksums.txt"; then
    echo "found=false" >>"$GITHUB_OUTPUT"
    echo "key=$(cd "$ACTION_PATH" && find . -type f -not -path './.git/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1)" >>"$GITHUB_OUTPUT"
    return
  fi
  curl -fsSL --retry 2 -o "$name" "$url/$name"
  # grep finds the line of this file, and an empty list is an error of sha256sum.
  grep -F "  $name" checksums.txt | sha256sum --check --strict -
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
