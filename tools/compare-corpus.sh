#!/usr/bin/env bash
# Compares checkers of CRDs on the releases of public projects:
#
#   tools/compare-corpus.sh [DIR]
#
# It fetches tags with git, pairs each CRD with that of the minor release before, and has each pair checked by those of these programs that are
# in PATH: sluice, crdify, crd-schema-checker. It prints a table, and writes into DIR (default: compare-corpus):
#
#   crds/              the CRDs; make bench PARTS=corpus CORPUS=DIR reads them, too
#   pairs.tsv          a line for each pair: id, files, releases, the verdict of sluice, the answers of the others
#   disagreements.tsv  the pairs on which sluice and another program disagree, to look at
#
# Nobody has labelled these pairs. The verdict of sluice divides them: "safe" has a proof, "unsafe" mostly a witness. So the table says where the
# others disagree with sluice, and not who is right. A disagreement can be settled: kubectl apply the witness under both CRDs.
#
# Environment: MINORS, how many of the newest minor releases of each project (default 8); PROJECTS, a file with lines "NAME URL FOLDER" in place of
# the list below.
set -euo pipefail

projects='
argo-cd https://github.com/argoproj/argo-cd manifests/crds
argo-rollouts https://github.com/argoproj/argo-rollouts manifests/crds
cloudnative-pg https://github.com/cloudnative-pg/cloudnative-pg config/crd/bases
external-secrets https://github.com/external-secrets/external-secrets config/crds/bases
gateway-api https://github.com/kubernetes-sigs/gateway-api config/crd/standard
kueue https://github.com/kubernetes-sigs/kueue config/components/crd/bases
kustomize-controller https://github.com/fluxcd/kustomize-controller config/crd/bases
kyverno https://github.com/kyverno/kyverno config/crds
prometheus-operator https://github.com/prometheus-operator/prometheus-operator example/prometheus-operator-crd
source-controller https://github.com/fluxcd/source-controller config/crd/bases
'
if [ -n "${PROJECTS:-}" ]; then
  projects=$(cat "$PROJECTS")
fi
minors=${MINORS:-8}
dir=${1:-compare-corpus}

if ! command -v sluice >/dev/null; then
  echo "compare-corpus: sluice is not in PATH: make build, then PATH=\$PWD/bin:\$PATH" >&2
  exit 2
fi
mkdir -p "$dir/repositories" "$dir/crds"
cd "$dir"
# Each program answers with flags, silent or error.
others=()
for program in crdify crd-schema-checker; do
  if command -v "$program" >/dev/null; then
    others+=("$program")
  else
    echo "compare-corpus: $program is not in PATH, and left out" >&2
  fi
done

# fetched fetches the newest tags vX.Y.0 into repositories/NAME, and prints them, the oldest first.
fetched() { # NAME URL
  local repository=repositories/$1 tag tags
  tags=$(git ls-remote --tags --refs "$2" | sed -n 's|.*refs/tags/\(v[0-9]*\.[0-9]*\.0\)$|\1|p' | sort -t. -k1.2,1n -k2,2n | tail -n "$minors")
  [ -d "$repository" ] || git init -q --bare "$repository"
  for tag in $tags; do
    if git --git-dir="$repository" rev-parse -q --verify "refs/tags/$tag" >/dev/null ||
      git --git-dir="$repository" fetch -q --depth 1 --no-tags "$2" "refs/tags/$tag:refs/tags/$tag"; then
      echo "$tag"
    else
      echo "compare-corpus: $1 $tag cannot be fetched, and is left out" >&2
    fi
  done
}

# extracted writes the files of a folder at a tag that hold one CRD each.
extracted() { # NAME TAG FOLDER
  local file to
  git --git-dir="repositories/$1" ls-tree -r --name-only "$2" -- "$3" | { grep -E '\.ya?ml$' || true; } | while read -r file; do
    to=crds/$1/$2/${file#"$3"/}
    mkdir -p "$(dirname "$to")"
    git --git-dir="repositories/$1" show "$2:$file" >"$to"
    if [ "$(grep -c '^kind: CustomResourceDefinition' "$to")" != 1 ]; then
      rm "$to"
    fi
  done
}

verdict_of_sluice() { # OLD NEW
  local out
  out=$(sluice check -o json "$1" "$2" 2>/dev/null) || true
  # Only texts differ in what is unchanged, so it counts as safe.
  sed -n 's/^ *"verdict": "\([a-z]*\)".*/\1/p' <<<"$out" | sed 's/^unchanged$/safe/' | head -n 1 | grep . || echo error
}

answer_of() { # PROGRAM OLD NEW
  local out code=0
  case $1 in
    crdify) out=$(crdify "file://$2" "file://$3" 2>/dev/null) || code=$? ;;
    # Without its rules of style, which judge a new API and not a change.
    crd-schema-checker)
      out=$(crd-schema-checker check-manifests --existing-crd-filename="$2" --new-crd-filename="$3" 2>&1 \
        --disabled-validators=NoBools,NoFloats,NoUints,NoMaps,ListsMustHaveSSATags,ConditionsMustHaveProperSSATags,MustHaveStatus) || code=$?
      ;;
  esac
  case $code in
    0) echo silent ;;
    1) if [ -n "$out" ]; then echo flags; else echo error; fi ;;
    *) echo error ;;
  esac
}

printf 'id\told\tnew\told_release\tnew_release\tlabel' >pairs.tsv
for program in "${others[@]+"${others[@]}"}"; do printf '\t%s' "$program"; done >>pairs.tsv
echo >>pairs.tsv
while read -r name url folder; do
  [ -n "$name" ] || continue
  echo "compare-corpus: $name" >&2
  before=
  for tag in $(fetched "$name" "$url"); do
    extracted "$name" "$tag" "$folder"
    if [ -n "$before" ] && [ -d "crds/$name/$tag" ]; then
      (cd "crds/$name/$tag" && find . -type f | sort) | while read -r file; do
        old=crds/$name/$before/${file#./} new=crds/$name/$tag/${file#./}
        if [ ! -f "$old" ] || cmp -s "$old" "$new"; then
          continue
        fi
        printf '%s\t%s\t%s\t%s\t%s\t%s' "$name/${file#./}/$tag" "$old" "$new" "$before" "$tag" "$(verdict_of_sluice "$old" "$new")"
        for program in "${others[@]+"${others[@]}"}"; do printf '\t%s' "$(answer_of "$program" "$old" "$new")"; done
        echo
      done >>pairs.tsv
    fi
    before=$tag
  done
done <<<"$projects"

awk -F '\t' '
  NR == 1 { for (i = 7; i <= NF; i++) name[i] = $i; n = NF; print > "disagreements.tsv"; next }
  { count[$6]++; total++; odd = 0
    for (i = 7; i <= n; i++) {
      answers[i, $6, $i]++
      if ($6 == "safe" && $i == "flags" || $6 == "unsafe" && $i == "silent") odd = 1
      if ($i == "error") errors[i]++
    }
    if (odd) print > "disagreements.tsv" }
  function share(part, whole) { return whole ? sprintf("%d of %d (%.1f%%)", part, whole, 100 * part / whole) : "none" }
  END {
    printf "\n%d pairs. Sluice: %d safe, %d unsafe, %d undecided, %d errors.\n\n", total, count["safe"], count["unsafe"], count["undecided"], count["error"]
    print "| checker | reports a problem, where Sluice has a proof | reports none, where Sluice says unsafe | errors |"
    print "| --- | --- | --- | --- |"
    for (i = 7; i <= n; i++) printf "| %s | %s | %s | %d |\n", name[i], share(answers[i, "safe", "flags"], count["safe"]), share(answers[i, "unsafe", "silent"], count["unsafe"]), errors[i]
  }' pairs.tsv
