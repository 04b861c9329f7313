#!/bin/sh
# Writes rules.yaml: the alerts of deploy/monitoring/alerts.yaml for the Prometheus operator. Part of npm run generate.
set -eu
cd "$(dirname "$0")"
{
  cat <<'END'
# Generated from deploy/monitoring/alerts.yaml by npm run generate.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ledger
spec:
END
  sed -n '/^groups:/,$ s/^/  /p' ../../../monitoring/alerts.yaml
} >rules.yaml
