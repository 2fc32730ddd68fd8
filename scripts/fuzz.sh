#!/usr/bin/env bash
# Runs every fuzz target of the repository, as many concurrently as there are processors, each
# with one worker. Their output is in .local/fuzz.
#
# Usage: fuzz.sh [TIME_PER_TARGET] (default 30s)
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}

# "go test -list" prints the names and then a line "ok <package> <time>". The tests of the whole
# stack have no fuzz targets, and listing them would start it.
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

export FUZZ_TIME=$time FUZZ_LOGS=$PWD/.local/fuzz
rm -rf "$FUZZ_LOGS"
mkdir -p "$FUZZ_LOGS"

fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZ_TIME" -parallel 1 "$1" </dev/null >"$3" 2>&1
}

# If the time ends during an input, go test sometimes fails with "context deadline exceeded" and
# no failing input. That is not a failure of the target.
only_late() {
	grep -q 'context deadline exceeded' "$1" && ! grep -q 'Failing input written' "$1"
}

one() {
	local log=$FUZZ_LOGS/${1//\//_}.$2.log
	if fuzz "$1" "$2" "$log" || { only_late "$log" && fuzz "$1" "$2" "$log"; }; then
		echo "ok   $1 $2: $(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
		return
	fi
	echo "FAIL $1 $2, see $log"
	tail -n 30 "$log"
	return 1
}
export -f fuzz only_late one

if ! xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' _ <<<"$targets"; then
	exit 1
fi
echo "$(wc -l <<<"$targets") fuzz targets passed"
