#!/usr/bin/env bash
# Checks that the programs that the local stack needs are installed. It installs missing
# Debian packages if it can, and reports the others, one per line.
# usage: prerequisites.sh [--lint | --race | --cluster]
#   --lint     check only what the linters need
#   --race     check also what the tests need
#   --cluster  check also what a Kubernetes node needs
set -euo pipefail
cd "$(dirname "$0")/.."

readonly go_wanted=26 # minor version of Go 1
readonly java_wanted=11
readonly jar_in_cli=platform/cloud-firestore-emulator/cloud-firestore-emulator.jar

failed=0
updated=0

missing() {
	echo "missing: $1" >&2
	failed=1
}

# install installs a Debian package. It fails on other systems, and without root.
install() {
	[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
	if [ "$updated" -eq 0 ]; then
		apt-get update -qq >&2 || true # an old list can suffice
		updated=1
	fi
	apt-cache show "$1" >/dev/null 2>&1 || return 1
	echo "installing $1" >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >&2
}

check_system() {
	[ "$(uname -s)" = Linux ] ||
		missing "Linux: the local stack listens on many addresses in 127.0.0.0/8, which other systems do not provide; use a Linux machine or container"
}

# check_go reads the version in this folder, where Go can download the version in go.mod.
check_go() {
	local version
	if ! version=$(go env GOVERSION 2>/dev/null); then
		missing "Go 1.$go_wanted or later: get it from https://go.dev/dl/ and put its bin on the PATH"
		return
	fi
	local minor=${version#go1.}
	minor=${minor%%[!0-9]*}
	[ "${minor:-0}" -ge "$go_wanted" ] ||
		missing "Go 1.$go_wanted or later (this is $version): get it from https://go.dev/dl/"
}

java_major() {
	java -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

check_java() {
	command -v java >/dev/null || install default-jre-headless || true
	if ! command -v java >/dev/null; then
		missing "Java $java_wanted or later, for the Firestore emulator: apt-get install default-jre-headless, or https://adoptium.net"
		return
	fi
	local major
	major=$(java_major)
	[ "${major:-0}" -ge "$java_wanted" ] ||
		missing "Java $java_wanted or later, for the Firestore emulator (this is ${major:-unknown}): apt-get install default-jre-headless, or https://adoptium.net"
}

# find_jar looks where package emulators/firestore does.
find_jar() {
	if [ -n "${FIRESTORE_EMULATOR_JAR:-}" ]; then
		[ -f "$FIRESTORE_EMULATOR_JAR" ]
		return
	fi
	local root
	for root in /usr/lib/google-cloud-sdk /usr/share/google-cloud-sdk /opt/google-cloud-sdk \
		/snap/google-cloud-cli/current /opt/homebrew/share/google-cloud-sdk "${HOME:-/root}/google-cloud-sdk"; do
		[ -f "$root/$jar_in_cli" ] && return
	done
	root=$(gcloud info --format='value(installation.sdk_root)' 2>/dev/null) || return 1
	[ -f "$root/$jar_in_cli" ]
}

check_jar() {
	find_jar && return
	if [ -n "${FIRESTORE_EMULATOR_JAR:-}" ]; then
		missing "the file that FIRESTORE_EMULATOR_JAR names: $FIRESTORE_EMULATOR_JAR"
		return
	fi
	install google-cloud-cli-firestore-emulator || true
	find_jar && return
	if command -v gcloud >/dev/null; then
		gcloud components install cloud-firestore-emulator --quiet >/dev/null 2>&1 || true
	fi
	find_jar ||
		missing "the Firestore emulator: install the Google Cloud CLI (https://cloud.google.com/sdk/docs/install), then gcloud components install cloud-firestore-emulator; or set FIRESTORE_EMULATOR_JAR"
}

# check_compiler checks for the C compiler, which the race detector and Vale need.
check_compiler() {
	local cc
	cc=$(go env CC 2>/dev/null || true)
	cc=${cc%% *}
	command -v "${cc:-gcc}" >/dev/null && return
	if install gcc; then
		install libc6-dev || true
	fi
	command -v "${cc:-gcc}" >/dev/null ||
		missing "a C compiler, for go test -race and make lint: apt-get install gcc libc6-dev"
}

# check_proxies checks for the proxies that the tests run in front of an app.
check_proxies() {
	local program
	for program in nginx caddy haproxy; do
		PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || install_idle "${program/nginx/nginx-light}" || true
		PATH=$PATH:/usr/sbin command -v "$program" >/dev/null ||
			missing "$program, for the tests of other proxies: apt-get install ${program/nginx/nginx-light}"
	done
}

# install_idle installs a package without starting its service.
install_idle() {
	local policy=/usr/sbin/policy-rc.d made="" status=0
	if [ "$(id -u)" -eq 0 ] && [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		made=1
	fi
	install "$1" || status=$?
	[ -z "$made" ] || rm -f "$policy"
	return "$status"
}

# check_promtool checks for the tool that tests the alerts.
check_promtool() {
	command -v promtool >/dev/null || install prometheus || true
	command -v promtool >/dev/null ||
		missing "promtool, for the tests of the alerts: apt-get install prometheus, or https://prometheus.io/download/"
}

# check_chromium checks for the browser that the tests of the console use. The headless shell
# needs a third of the processor time of the desktop browser.
check_chromium() {
	has "${CHROMIUM:-}" chromium-headless-shell && return
	install chromium-headless-shell && return
	has chromium chromium-browser google-chrome && return
	install chromium ||
		missing "Chromium, for the tests of the console: apt-get install chromium-headless-shell, or set CHROMIUM to a compatible program"
}

# has reports whether one of the programs is installed.
has() {
	local name
	for name; do
		[ -n "$name" ] && command -v "$name" >/dev/null && return
	done
	return 1
}

# check_node checks for what a Kubernetes node on this machine needs.
check_node() {
	if [ "$(uname -s)" != Linux ]; then
		return # check_system reports it
	fi
	if [ "$(id -u)" -ne 0 ]; then
		missing "root: make cluster creates namespaces, mounts and cgroups"
		return
	fi
	[ -d /sys/fs/cgroup ] && [ -n "$(ls /sys/fs/cgroup)" ] || missing "control groups: mount them at /sys/fs/cgroup"
	local pair
	for pair in containerd:containerd runc:runc /usr/lib/cni/ptp:containernetworking-plugins nft:nftables conntrack:conntrack ip:iproute2 \
		busybox:busybox-static /usr/bin/tini-static:tini newuidmap:uidmap git:git curl:curl; do
		PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || install_idle "${pair#*:}" || true
		PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null ||
			missing "${pair%%:*}, for the node: apt-get install ${pair#*:}"
	done
}

case "${1:-}" in
--lint)
	check_go
	check_compiler
	exit "$failed"
	;;
--race)
	check_compiler
	check_proxies
	check_promtool
	check_chromium
	;;
--cluster)
	check_node
	;;
esac
check_system
check_go
check_java
check_jar
exit "$failed"
