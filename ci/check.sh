#!/usr/bin/env bash
# Checks the CRDs of a pull request or a push on GitHub: annotations, the report in the log and in the job's summary.
# action.yml calls it in the repository, with sluice in PATH and these environment variables, which may be empty:
#   SLUICE_BASE    revision to compare with (default: the target of the pull request, else the commit before the push)
#   SLUICE_BEFORE  the commit before the push
#   SLUICE_PATHS   files and folders with CRDs, separated by spaces (default: the whole repository)
#   SLUICE_ARGS    further flags of sluice check, separated by spaces
# Exit codes are those of sluice check: 0 no failing finding, 1 findings, 2 it could not check.
set -uo pipefail

range=${SLUICE_BASE:+$SLUICE_BASE..HEAD}
if [ -z "$range" ] && [ -n "${GITHUB_BASE_REF:-}" ]; then
  range=origin/$GITHUB_BASE_REF...HEAD
elif [ -z "$range" ] && [[ ${SLUICE_BEFORE:-0} =~ ^0+$ ]]; then
  echo "sluice: there is no commit before this one: nothing to compare with"
  exit 0
fi
range=${range:-$SLUICE_BEFORE..HEAD}

read -ra paths <<<"${SLUICE_PATHS:-.}"
read -ra flags <<<"${SLUICE_ARGS:-}"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  sluice check --git "$range" "${flags[@]}" -o markdown -- "${paths[@]}" >>"$GITHUB_STEP_SUMMARY" 2>/dev/null
fi
sluice check --git "$range" "${flags[@]}" -o github -- "${paths[@]}"
