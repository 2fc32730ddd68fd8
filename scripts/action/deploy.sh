#!/usr/bin/env bash
# Deploys an app through its webhook and waits for what comes of it: the entry point of the
# action beside it, which sets the variables SLUICE_*. It needs bash and curl, and nothing
# else. Tokens go to curl through its standard input, so that no list of processes has them.
set -euo pipefail

fail() {
  echo "::error title=Sluice::$(escape "$1")" >&2 # the runner reads both
  exit 1
}

# escape makes a text one that is a whole line of a workflow command.
escape() {
  local text=${1//'%'/'%25'}
  text=${text//$'\r'/'%0D'}
  printf '%s' "${text//$'\n'/'%0A'}"
}

# field reads a text or a number of a flat JSON object.
field() {
  sed -n 's/.*"'"$2"'":\("\(\([^"\\]\|\\.\)*\)"\|\([0-9][0-9]*\)\).*/\2\4/p' <<<"$1" | sed 's/\\u00\(3c\|3e\|26\)/?/g; s/\\\(.\)/\1/g'
}

# encode writes a text as a part of a URL's query.
encode() {
  local text=$1 i c
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    case $c in
      [A-Za-z0-9._~-]) printf '%s' "$c" ;;
      *) printf '%%%02X' "'$c" ;;
    esac
  done
}

# checkSecure refuses an address that shows tokens to the network: plain http, except on this
# machine.
checkSecure() {
  local url=${1,,}
  [[ ${SLUICE_INSECURE:-} == true || $url == https://* || $url =~ ^http://(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?(/|$) ]] ||
    fail "The webhook's URL has no https, so others on the network could read the token. Use https, or set the input insecure to true."
}

# proof is the header that proves a call. Each has a token of its own: one of the job's
# counts once, and ends within minutes.
proof() {
  if [[ -n ${SLUICE_WEBHOOK_TOKEN:-} ]]; then
    printf 'X-Service-Token: %s' "$SLUICE_WEBHOOK_TOKEN"
    return
  fi
  local answer value
  answer=$(printf 'Authorization: Bearer %s' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN" |
    curl --fail --silent --show-error --max-time 30 --retry 3 --header @- \
      "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=$(encode "${SLUICE_AUDIENCE:-$SLUICE_URL}")") || return 1
  value=$(sed -n 's/.*"value" *: *"\([^"]*\)".*/\1/p' <<<"$answer")
  [[ -n $value ]] || return 1
  echo "::add-mask::$value" >&2
  printf 'Authorization: Bearer %s' "$value"
}

# call asks the webhook; what it answers comes first, and its HTTP status as the last line.
call() {
  local header
  header=$(proof) || fail "The job got no token of its own: does it have the permission id-token: write?"
  printf '%s' "$header" | curl --silent --show-error --max-time 330 --retry 3 --header @- --header 'Prefer: wait=300' --write-out '\n%{http_code}' "$@"
}

# report tells the workflow what has come of it.
report() {
  local name value
  for name in status revision build image; do
    value=$(field "$1" "$name")
    [[ -z ${GITHUB_OUTPUT:-} ]] || echo "$name=$value" >>"$GITHUB_OUTPUT"
  done
  [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || printf 'Sluice: **%s**, revision %s\n\n`%s`\n' "$(field "$1" status)" "$(field "$1" revision)" "$(field "$1" image)" >>"$GITHUB_STEP_SUMMARY"
}

[[ -n ${SLUICE_URL:-} ]] || fail "url is required: the webhook's URL."
checkSecure "$SLUICE_URL"
[[ ${SLUICE_IMAGE:-} =~ ^[A-Za-z0-9._:/@-]*$ ]] || fail "image is no image reference."
[[ ${SLUICE_COMMIT:-} =~ ^[0-9a-fA-F]*$ ]] || fail "commit is no commit's hash."
[[ ${SLUICE_TIMEOUT:=900} =~ ^[0-9]+$ ]] || fail "timeout is a number of seconds."
[[ -n ${SLUICE_WEBHOOK_TOKEN:-} || -n ${ACTIONS_ID_TOKEN_REQUEST_URL:-} && -n ${ACTIONS_ID_TOKEN_REQUEST_TOKEN:-} ]] ||
  fail "There is neither a token nor one of the job's own: give the job the permission id-token: write, or the webhook's token as a secret."
[[ -z ${SLUICE_WEBHOOK_TOKEN:-} ]] || echo "::add-mask::$SLUICE_WEBHOOK_TOKEN"

body="{\"commit\":\"${SLUICE_COMMIT:-}\"}"
[[ -z ${SLUICE_IMAGE:-} ]] || body="{\"image\":\"$SLUICE_IMAGE\",\"commit\":\"${SLUICE_COMMIT:-}\"}"
# The jobs of a matrix have one name, so the delivery's ID has a checksum of the matrix and the body.
checksum=$(printf '%s\n%s' "${SLUICE_MATRIX:-}" "$body" | cksum)
delivery="github-${GITHUB_RUN_ID:-0}-${GITHUB_RUN_ATTEMPT:-0}-${GITHUB_JOB:-job}-${GITHUB_ACTION:-action}-${checksum%% *}"

answer=$(call --header 'Content-Type: application/json' --header "Idempotency-Key: $delivery" --data "$body" "$SLUICE_URL") || fail "The webhook could not be called."
begun=$SECONDS
while :; do
  code=${answer##*$'\n'}
  status=$(field "$answer" status)
  case $code in
    2??) ;;
    429 | 5??)
      ((SECONDS - begun < SLUICE_TIMEOUT)) || fail "The webhook answers $code: $(field "$answer" message)"
      ;;
    *) fail "The webhook answers $code $(field "$answer" code): $(field "$answer" message)" ;;
  esac
  case $status in
    live | deployed | superseded | ignored | pong) break ;;
    failed)
      report "$answer"
      fail "The deployment failed: $(field "$answer" message)"
      ;;
  esac
  ((SECONDS - begun < SLUICE_TIMEOUT)) || fail "The outcome did not come within $SLUICE_TIMEOUT seconds; the deployment goes on."
  sleep "${SLUICE_PAUSE:-5}"
  url=$(field "$answer" status_url)
  status_url=${url:-${status_url:-}}
  if [[ -n $status_url ]]; then
    checkSecure "$status_url"
    answer=$(call "$status_url") || fail "The webhook could not be asked."
  else
    answer=$(call --header 'Content-Type: application/json' --header "Idempotency-Key: $delivery" --data "$body" "$SLUICE_URL") || fail "The webhook could not be called."
  fi
done
report "$answer"
echo "Sluice: $status, revision $(field "$answer" revision), $(field "$answer" image)"
