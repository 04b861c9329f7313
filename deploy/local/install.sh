#!/bin/sh
# Installs the packages where they are missing or older than the lock file, then runs a command on their Node 24:
# `sh deploy/local/install.sh [tool…] [-- command…]`; each tool must be in node_modules/.bin, as a production install has none of the tests' tools.
set -eu
cd "$(dirname "$0")/../.."
tools=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  tools="$tools $1"
  shift
done
[ $# -eq 0 ] || shift

fail() {
  echo "$1" >&2
  exit 1
}

# PATH, npm, Node and initdb each give one of these a meaning of its own.
case $PWD/ in
*[\"\$\`\\:*]* | */node_modules/*) fail "this can't be installed or started in $PWD: its path must have none of \" \$ \` \\ : * and no node_modules" ;;
esac

complete() {
  # npm ci would remove the packages that a link leads to.
  [ -L node_modules ] && return 0
  # A checkout makes the lock file newer, and often no other.
  [ node_modules/.package-lock.json -nt package-lock.json ] || cmp -s package-lock.json node_modules/.installed-lock.json || return 1
  for tool in $tools; do [ -e "node_modules/.bin/$tool" ] || return 1; done
}

if ! complete; then
  [ -w . ] || fail "the packages can't be installed: $PWD can't be written to"
  # One at a time, because npm ci removes what another one installs.
  failures=0
  until ln -s $$ .installing 2>/dev/null; do
    if ! installer=$(readlink .installing); then
      # Just released, or it can't be created.
      failures=$((failures + 1))
      [ "$failures" -lt 5 ] || fail "the lock $PWD/.installing can't be created"
      sleep 1
    elif kill -0 "$installer" 2>/dev/null; then
      [ -n "${waiting:-}" ] || echo "waiting for process $installer, which installs the packages"
      waiting=1
      sleep 1
    else
      rm -f .installing
    fi
  done
  trap 'rm -f .installing' EXIT
  trap 'exit 1' INT TERM HUP
fi

if ! complete; then
  # npm ci removes node_modules, so npm must not run on the Node in there.
  PATH=$(printf %s "$PATH" | tr : '\n' | grep -vF -e "$PWD/node_modules/" -e "$(pwd -P)/node_modules/" | paste -sd : -)
  [ "$(npm config get ignore-scripts)" != true ] ||
    fail "npm's setting ignore-scripts blocks the install scripts that package.json allows (allowScripts): set npm_config_ignore_scripts=false"
  echo 'installing packages (npm ci; the first time takes a minute)'
  # engine-strict would compare the machine's Node with packages that run on the installed one.
  log=$(NODE_ENV= npm ci --include=dev --include=optional --no-progress --prefer-offline --engine-strict=false --loglevel=error 2>&1) || fail "$log"
  touch node_modules/.package-lock.json
  cp package-lock.json node_modules/.installed-lock.json
fi

if ! [ -x node_modules/.bin/node ] && ! node -e 'process.exit(process.features.typescript ? 0 : 1)'; then
  fail "the package node@24 could not be installed, and node $(node --version) can't run TypeScript: Node 24 is needed"
fi

if [ $# -gt 0 ]; then
  # exec runs no EXIT trap.
  [ "$(readlink .installing)" != $$ ] || rm -f .installing
  PATH=$PWD/node_modules/.bin:$PATH exec "$@"
fi
