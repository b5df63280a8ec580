#!/bin/sh
# Usage: promtool_metrics_test.sh COMMAND: its output must be a page without complaint of `promtool check metrics`.
set -eu
if ! command -v promtool >/dev/null; then
  echo "SKIPPED: promtool is missing (Debian package prometheus)"
  exit 77
fi
page=$(mktemp)
trap 'rm -f "$page"' EXIT
"$1" >"$page"
grep -q '^grpc_server_handling_seconds_bucket' "$page"
promtool check metrics <"$page"
echo "promtool check metrics: clean, $(grep -vc '^#' "$page") series"
