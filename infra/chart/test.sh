#!/bin/sh
# Gates an app at {base_url} and calls it, without a key and with one. All objects are in a
# separate project, which is deleted at the end. Secrets are passed in files, not arguments.
set -eu
project=helm-test
umask 077
cd /tmp
connect="--connect-to ::$INGRESS"
[ ! -f /ca/ca.crt ] || connect="$connect --cacert /ca/ca.crt"

fail() {
  printf 'failed: %s\n' "$*" >&2
  exit 1
}

# call METHOD PATH [BODY] calls the API and writes the response's body to the file answer.
call() {
  printf '%s' "${3-}" > body
  # shellcheck disable=SC2086
  status=$(curl --silent --show-error --max-time 30 --retry 5 --retry-connrefused $connect --config session --output answer --write-out '%{http_code}' \
    --request "$1" --header 'Content-Type: application/json' --data-binary @body "$BASE_URL/api/v1$2") || fail "$1 $2: no response"
}

# want STATUS... fails if the last response has another status.
want() {
  case " $* " in *" $status "*) ;; *) fail "$status $(cat answer)" ;; esac
}

# value NAME prints a string field of the last response.
value() {
  sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" answer | head -n 1
}

# app FILE requests the app through the ingress and prints the response's status.
app() {
  # shellcheck disable=SC2086
  curl --silent --max-time 10 $connect --config "$1" --output answer --write-out '%{http_code}' "$url/" || true
}

# until_is STATUS FILE waits for this status of the app, for at most two minutes.
until_is() {
  left=120
  until status=$(app "$2"); [ "$status" = "$1" ]; do
    [ "$left" -gt 0 ] || fail "status of the app: got $status, want $1: $(cat answer)"
    left=$((left - 1))
    sleep 1
  done
  echo "the app returns $status"
}

# clean deletes the objects of this test, and of an interrupted one. An environment must be empty
# before it can be deleted.
clean() {
  call DELETE "$at/apps/gated"
  host=$(value host)
  [ -z "$host" ] || call DELETE "/host-reservations/$host" # the next run has another project
  call GET "$at/api-keys"
  for id in $(grep -o '"id":"[^"]*"' answer | cut -d '"' -f 4); do
    call POST "/projects/$project/api-keys/$id/revoke"
  done
  call GET "$at/plans"
  for id in $(grep -o '"id":"[^"]*"' answer | cut -d '"' -f 4); do
    call DELETE "$at/plans/$id"
  done
  call DELETE "$at"
  call DELETE "/projects/$project"
}

: > none
: > session
# Right after an installation, routes and functions need up to two minutes.
left=60
until call POST /session "{\"username\":\"$ADMIN_USERNAME\",\"password\":\"$ADMIN_PASSWORD\"}"; [ "$status" = 200 ] || [ "$status" = 201 ]; do
  [ "$left" -gt 0 ] || fail "sign in: $status $(cat answer)"
  left=$((left - 1))
  sleep 2
done
printf 'header = "Authorization: Bearer %s"\n' "$(value token)" > session

at=/projects/$project/environments/test
clean
trap clean EXIT
call POST /projects "{\"name\":\"$project\"}"
want 201
call POST "/projects/$project/environments" '{"name":"test"}'
want 201
call POST "$at/apps" "{\"name\":\"gated\",\"image\":\"$APP_IMAGE\"}"
want 201
url=$(value url)
call PATCH "$at/apps/gated" '{"require_api_key":true}'
want 200
until_is 401 none
call POST "$at/plans" '{"name":"test","rate":10,"burst":10}'
want 201
call POST "$at/api-keys" "{\"plan\":\"$(value id)\"}"
want 201
printf 'header = "X-API-Key: %s"\n' "$(value key)" > key
until_is 200 key
status=$(app none)
[ "$status" = 401 ] || fail "without a key: $status"
echo "gated: 401 without a key, 200 with one"
