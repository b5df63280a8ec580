#!/bin/sh
# Usage: prometheus_rules_test.sh SOURCE_DIR METRICS_PAGE: promtool accepts configuration and alerts, the alerts' own tests pass,
# every family that an alert asks for is on the page that METRICS_PAGE prints, and every family there is documented.
set -eu
if ! command -v promtool >/dev/null; then
  echo "SKIPPED: promtool is missing (Debian package prometheus)"
  exit 77
fi
page=$("$2")
cd "$1/deploy/prometheus"
promtool check config prometheus.yml
promtool check rules --lint=all --lint-fatal alerts.yml
promtool test rules alerts_test.yml
families=$(grep -oE '(grpc_server|embedding|process)_[a-z_]+' alerts.yml | sed 's/_bucket$//' | sort -u)
for family in $families; do
  if ! printf '%s\n' "$page" | grep -q "^# TYPE $family "; then
    echo "alerts.yml names $family, which the server does not export" >&2
    exit 1
  fi
done
for family in $(printf '%s\n' "$page" | sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p'); do
  if ! grep -q "\`$family\`" ../../docs/observability.md; then
    echo "docs/observability.md does not tell of $family" >&2
    exit 1
  fi
done
