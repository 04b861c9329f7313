#!/bin/sh
# Installs the packages where they are missing or others than the lock file's: `sh deploy/local/install.sh [tool…] [-- command…]`, each tool one
# of node_modules/.bin that must be there (a production install leaves the tools of the tests out), and goes on as the command. Runs before there
# is any package, on whatever Node the machine has. No `pre` script of npm's calls it, as npm passes over those with ignore-scripts.
set -eu
cd "$(dirname "$0")/../.."
tools=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  tools="$tools $1"
  shift
done
[ $# -eq 0 ] || shift

give_up() {
  echo "$1" >&2
  exit 1
}

# What PATH, npm's patterns, Node and initdb each take for something else in the name of a directory.
case $PWD/ in
*[\"\$\`\\:*]* | */node_modules/*) give_up "this can't be installed or started in $PWD: its path must have none of \" \$ \` \\ : * and no node_modules" ;;
esac

# Unless somebody has installed others since, by hand.
is_as_installed() {
  cat package-lock.json node_modules/.package-lock.json 2>/dev/null | cmp -s - node_modules/.installed-lock.json
}

complete() {
  # A link leads to another tree's packages: npm ci would remove them there.
  [ -L node_modules ] && return 0
  # A checkout or a copy makes the lock file newer, and often no other.
  [ node_modules/.package-lock.json -nt package-lock.json ] || is_as_installed || return 1
  for tool in $tools; do [ -e "node_modules/.bin/$tool" ] || return 1; done
}

release() {
  [ "$(readlink .installing)" != $$ ] || rm -f .installing
}

if ! complete; then
  [ -w . ] || give_up "the packages can't be installed: $PWD can't be written to"
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
  trap release EXIT
fi

if ! complete; then
  # npm ci removes node_modules, so neither npm nor the packages' install scripts may run on the Node in there.
  PATH=$(printf %s "$PATH" | tr : '\n' | grep -vF -e "$PWD/node_modules/" -e "$(pwd -P)/node_modules/" | paste -sd : -)
  # The user has his reasons for that setting: it is his to lift.
  [ "$(npm config get ignore-scripts)" != true ] ||
    give_up "npm's setting ignore-scripts keeps out what the packages need (package.json lists them under allowScripts): give npm_config_ignore_scripts=false"
  echo 'installing packages (npm ci; the first time takes a minute)'
  log=$(mktemp)
  # In a group of its own, which ends at once when this script is told to end: npm itself takes most of a minute, and killed alone leaves children
  # that write on.
  group=$(command -v setsid) || group=
  # npm would count the machine's Node against what packages want of the one that they bring.
  NODE_ENV= $group npm ci --include=dev --include=optional --no-progress --prefer-offline --engine-strict=false --loglevel=error >"$log" 2>&1 &
  trap "{ kill ${group:+-KILL -$!} $!; wait $!; } 2>/dev/null || :; rm -f '$log'; exit 1" INT TERM HUP
  if ! wait $!; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
  fi
  rm -f "$log"
  trap - INT TERM HUP
  # npm may have left the file as old as the lock file; it is as new as the packages.
  touch node_modules/.package-lock.json
  cat package-lock.json node_modules/.package-lock.json >node_modules/.installed-lock.json
fi

if ! [ -x node_modules/.bin/node ] && ! node -e 'process.exit(process.features.typescript ? 0 : 1)'; then
  give_up "the package node@24 could not be installed, and node $(node --version) can't run TypeScript: Node 24 is needed"
fi

if [ $# -gt 0 ]; then
  release 2>/dev/null || :
  PATH=$PWD/node_modules/.bin:$PATH exec "$@"
fi
