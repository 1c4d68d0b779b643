#!/bin/sh
# The life of a CRD on a real API server, told step by step with the commands that people type. `make demo` starts the cluster, sets
# KUBECONFIG, and puts sluice and kubectl into PATH. GUARD and HEALTH are two free addresses.
set -eu
GUARD=${GUARD:-127.0.0.1:19443} HEALTH=${HEALTH:-127.0.0.1:19080}
examples=$PWD/examples/upgrade
dir=$(mktemp -d)
guard=
trap '[ -z "$guard" ] || kill "$guard"; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
export KUBECACHEDIR="$dir/kubectl-cache"
cd "$dir"

step=0
say() { step=$((step + 1)); printf '\n== %d. %s\n' "$step" "$1"; }
# run shows a command and runs it; refused does so with a command that has to fail with exit code 1.
run() { echo "\$ $*"; "$@"; }
refused() {
  echo "\$ $*"
  code=0
  "$@" || code=$?
  echo "exit code $code"
  [ "$code" -eq 1 ]
}
# eventually waits up to a minute until a command succeeds.
eventually() {
  for _ in $(seq 120); do
    if "$@" >wait.log 2>&1; then return; fi
    sleep 0.5
  done
  echo "it did not come to pass: $*" >&2
  cat wait.log >&2
  exit 1
}

say "A git repository has three versions of a CRD"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@example.com
git init -q -b main databases
cd databases
mkdir deploy
while read -r tag file message; do
  cp "$examples/$file" deploy/databases.yaml
  git add . && git commit -q -m "$message" && git tag "$tag"
done <<END
v1 v1.yaml databases
v2 v2-unsafe.yaml drop an engine, tighten bounds, rename a field
v3 v3-safe.yaml add an engine and fields, widen bounds
END
run git --no-pager log --oneline --decorate --reverse
source=git+file://$dir/databases//deploy

say "v1 is applied, and five objects are stored under it"
run sluice apply --app databases -f "$source?ref=v1"
run kubectl apply --server-side -f "$examples/objects.yaml"

say "v2 looks harmless; it is checked against what is stored"
refused sluice check git:v2:deploy/databases.yaml

say "An apply of v2 is blocked, before anything is changed"
refused sluice apply --app databases -f "$source?ref=v2"

say "v3 is safe, and delivered"
run sluice check git:v3:deploy/databases.yaml
run sluice apply --app databases -f "$source?ref=v3"
run sluice ls databases

say "A guard at admission stops v2 whoever sends it"
echo "$ sluice manifests --image=example.test/sluice --roles=crd-guard --guard-reads=example.sluice.dev | kubectl apply --server-side -f -"
sluice manifests --image=example.test/sluice --roles=crd-guard --guard-reads=example.sluice.dev | kubectl apply --server-side -f - >applied
echo "$(wc -l <applied) objects are applied. No node runs their Deployment here, so the guard runs beside, and the API server calls its address."
clientConfig="{\"op\": \"replace\", \"path\": \"/webhooks/0/clientConfig\", \"value\": {\"url\": \"https://$GUARD/validate-crds\"}}"
kubectl patch validatingwebhookconfiguration sluice-crd-guard --type=json -p "[$clientConfig]"
echo "$ sluice serve --roles=crd-guard --listen=$HEALTH --guard-listen=$GUARD --guard-host=${GUARD%:*} &"
sluice serve --roles=crd-guard --listen="$HEALTH" --guard-listen="$GUARD" --guard-host="${GUARD%:*}" 2>"$dir/guard.log" &
guard=$!
git show v2:deploy/databases.yaml >v2.yaml
forbidden() { kubectl apply --server-side --force-conflicts --dry-run=server -f v2.yaml 2>&1 | grep 'denied the request'; }
eventually forbidden
refused kubectl apply --server-side --force-conflicts -f v2.yaml

say "Who may, and says why, lets that one change through; it is recorded"
run sluice check --print-hash v2.yaml
hash=$(sluice check --print-hash v2.yaml | cut -d ' ' -f 1)
why="$hash: mariadb was never used, see the survey"
echo "$ kubectl annotate --local -o yaml -f v2.yaml \"sluice.dev/allow-unsafe-upgrade=$why\" | kubectl apply --server-side --force-conflicts -f -"
kubectl annotate --local -o yaml -f v2.yaml "sluice.dev/allow-unsafe-upgrade=$why" | kubectl apply --server-side --force-conflicts -f -
allowed() { kubectl get events --field-selector reason=UnsafeUpgradeAllowed -o name | grep .; }
eventually allowed
run kubectl get events --field-selector reason=UnsafeUpgradeAllowed -o custom-columns=REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message | cut -c 1-300
echo "$ curl -s http://$HEALTH/metrics | grep ^sluice_crd_guard_bypasses_total"
curl -s "http://$HEALTH/metrics" | grep ^sluice_crd_guard_bypasses_total

say "How to go on, with a cluster of your own"
cat <<END
  sluice check new.yaml                          # against the live CRDs and their stored objects
  sluice apply --app NAME -f SOURCE --dry-run=server
  sluice manifests --roles=crd-guard --image IMAGE | kubectl apply --server-side -f -
  sluice manifests --roles=resolution,resolver-git,delivery --image IMAGE | kubectl apply --server-side -f -
END
