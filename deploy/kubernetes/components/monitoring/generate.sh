#!/bin/sh
# Writes rules.yaml: the rules of deploy/monitoring/ for the Prometheus operator. Part of npm run generate.
set -eu
cd "$(dirname "$0")"
{
  cat <<'END'
# Generated from deploy/monitoring/{recording,alerts}.yaml by npm run generate.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ledger
spec:
END
  echo '  groups:'
  sed -n 's/^  /    /p' ../../../monitoring/recording.yaml ../../../monitoring/alerts.yaml
} >rules.yaml
