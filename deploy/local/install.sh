#!/bin/sh
# Installs the packages where they are missing or older than the lock file: `sh deploy/local/install.sh [command…]`, each command one of
# node_modules/.bin that must be there (a production install leaves the tools of the tests out). Runs before there is any package, on
# whatever Node the machine has.
set -eu
cd "$(dirname "$0")/../.."

complete() {
  # A link leads to another tree's packages: npm ci would remove them there.
  [ -L node_modules ] && return 0
  [ node_modules/.package-lock.json -nt package-lock.json ] || return 1
  for command in "$@"; do [ -e "node_modules/.bin/$command" ] || return 1; done
}

if ! complete "$@"; then
  # One at a time: npm ci removes what another one is putting there. A lock whose process is gone, or that a number used again keeps alive, is
  # taken; where none can be made, npm says why.
  tries=0
  until ln -s $$ .installing 2>/dev/null || [ "$tries" -ge 5 ]; do
    if ! holder=$(readlink .installing); then
      tries=$((tries + 1))
    elif ! kill -0 "$holder" 2>/dev/null || [ "$(find .installing -mmin +30 2>/dev/null)" ]; then
      [ "$(readlink .installing)" != "$holder" ] || rm -f .installing
      continue
    elif [ -z "${waited:-}" ]; then
      echo "waiting for process $holder, which installs the packages"
      waited=1
    fi
    sleep 1
  done
  trap '[ "$(readlink .installing)" != $$ ] || rm -f .installing' EXIT
fi

if ! complete "$@"; then
  echo 'installing packages (npm ci; the first time takes a minute)'
  # npm ci removes node_modules, so neither npm nor the packages' install scripts may run on the Node in there.
  PATH=$(printf %s "$PATH" | tr : '\n' | grep -vF -e "$PWD/node_modules/" -e "$(pwd -P)/node_modules/" | paste -sd : -)
  log=$(mktemp)
  NODE_ENV= npm ci --include=dev --include=optional --no-progress >"$log" 2>&1 &
  trap "kill $! 2>/dev/null; wait $! || :; rm -f '$log'; exit 1" INT TERM
  if ! wait $!; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
  trap - INT TERM
  # npm may have left the file as old as the lock file; it is as new as the packages.
  touch node_modules/.package-lock.json
fi

if ! [ -x node_modules/.bin/node ] && ! node -e 'process.exit(process.features.typescript ? 0 : 1)'; then
  echo "the package node@24 could not be installed, and node $(node --version) can't run TypeScript: Node 24 is needed" >&2
  exit 1
fi
