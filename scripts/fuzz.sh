#!/usr/bin/env bash
# Runs every fuzz target of the repository, one after the other.
# usage: fuzz.sh [time for each, default 30s]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}

# "go test -list" prints the names, then a line "ok <package> <time>". The tests of
# the whole stack have no targets, and listing would start it.
targets=$(
	go list ./... | grep -v '/sluice/tests' | xargs go test -list '^Fuzz' | awk '
		/^Fuzz/    { targets[++n] = $1 }
		/^ok[ \t]/ { for (i = 1; i <= n; i++) print $2, targets[i]; n = 0 }
		/^FAIL/    { print "fuzz.sh: can not list: " $0 > "/dev/stderr"; failed = 1 }
		END        { exit failed }
	'
)
if [ -z "$targets" ]; then
	echo "fuzz.sh: no fuzz targets found" >&2
	exit 1
fi

output=$(mktemp)
trap 'rm -f "$output"' EXIT

fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" </dev/null | tee "$output"
}

# A run whose time is over in the middle of an input sometimes ends with "context
# deadline exceeded" and no failing input: that is go test's fault, not the target's.
only_late() {
	grep -q 'context deadline exceeded' "$output" && ! grep -q 'Failing input written' "$output"
}

while read -r package target; do
	echo "== $package $target"
	fuzz "$package" "$target" || { only_late && fuzz "$package" "$target"; }
done <<<"$targets"
echo "$(wc -l <<<"$targets") fuzz targets passed"
