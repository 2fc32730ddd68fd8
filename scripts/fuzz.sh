#!/usr/bin/env bash
# Runs every fuzz target of the repository, one after the other.
# usage: fuzz.sh [time for each, default 30s]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}
count=0
# "go test -list" prints the names, then a line "ok <package> <time>".
while read -r package target; do
	echo "== $package $target"
	go test -run '^$' -fuzz "^${target}\$" -fuzztime "$time" "$package"
	count=$((count + 1))
done < <(
	go test -list '^Fuzz' ./... | awk '
		/^Fuzz/      { targets[++n] = $1 }
		/^ok[ \t]/   { for (i = 1; i <= n; i++) print $2, targets[i]; n = 0 }
		/^FAIL/      { print "fuzz.sh: can not list: " $0 > "/dev/stderr"; failed = 1 }
		END          { exit failed }
	'
)
if [ "$count" -eq 0 ]; then
	echo "fuzz.sh: no fuzz targets found" >&2
	exit 1
fi
echo "$count fuzz targets passed"
