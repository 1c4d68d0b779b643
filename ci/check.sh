#!/usr/bin/env bash
# Checks the CRDs that a job of GitHub, Gitea or Forgejo changes: annotations, the report in the log and in the job's summary.
# action.yml calls it in the repository, with sluice in PATH and these environment variables, which may be empty:
#   SLUICE_BASE   revision to compare with (default: the event names it, see sluice check --ci)
#   SLUICE_PATHS  files and folders with CRDs, separated by spaces or lines (default: the whole repository)
#   SLUICE_ARGS   further flags of sluice check, separated by spaces or lines
# Exit codes are those of sluice check: 0 no failing finding, 1 findings, 2 it could not check.
set -uo pipefail

compare=(--ci)
if [ -n "${SLUICE_BASE:-}" ]; then
  compare=(--git "$SLUICE_BASE...HEAD")
fi
read -rd '' -a paths <<<"${SLUICE_PATHS:-}"
# Before bash 4.4, as on macOS, an empty array counts as unset: hence ${flags[@]+...}.
read -rd '' -a flags <<<"${SLUICE_ARGS:-}"
if [ ${#paths[@]} = 0 ]; then
  paths=(.)
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  said=$(mktemp)
  if ! sluice check "${compare[@]}" ${flags[@]+"${flags[@]}"} -o markdown -- "${paths[@]}" >>"$GITHUB_STEP_SUMMARY" 2>"$said"; then
    # What ends with an error has no report.
    sed -n 's/^sluice: /The CRDs were not checked: /p' "$said" >>"$GITHUB_STEP_SUMMARY"
  fi
  rm -f "$said"
fi
sluice check "${compare[@]}" ${flags[@]+"${flags[@]}"} -o github -- "${paths[@]}"
