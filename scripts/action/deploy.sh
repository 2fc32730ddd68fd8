#!/usr/bin/env bash
# Deploys an app through its webhook and waits for the result. action.yml runs this script and
# sets the variables SLUICE_*. It needs bash and curl. Tokens go to curl through standard input,
# so that the process list never shows them.
set -euo pipefail

fail() {
  echo "::error title=Sluice::$(escape "$1")" >&2
  exit 1
}

# escape encodes a text as one line of a workflow command.
escape() {
  local text=${1//'%'/'%25'}
  text=${text//$'\r'/'%0D'}
  printf '%s' "${text//$'\n'/'%0A'}"
}

# field prints a string or a number of a flat JSON object.
field() {
  sed -n 's/.*"'"$2"'":\("\(\([^"\\]\|\\.\)*\)"\|\([0-9][0-9]*\)\).*/\2\4/p' <<<"$1" | sed 's/\\u00\(3c\|3e\|26\)/?/g; s/\\\(.\)/\1/g'
}

# state prints the status of the deployment for people. The statuses live and deployed mean the same.
state() {
  local status
  status=$(field "$1" status)
  echo "${status/#deployed/live}"
}

# encode percent-encodes a text for a URL's query.
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

# checkSecure rejects a URL that exposes tokens to the network: plain http, except on this machine.
checkSecure() {
  local url=${1,,}
  [[ ${SLUICE_INSECURE:-} == true || $url == https://* || $url =~ ^http://(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?(/|$) ]] ||
    fail "The webhook's URL does not use https, so others on the network could read the token. Use https, or set the input insecure to true."
}

# credential prints the header that authenticates a call. Each call needs a new job token: it is
# valid once, and only for minutes.
credential() {
  if [[ -n ${SLUICE_WEBHOOK_TOKEN:-} ]]; then
    printf 'X-Service-Token: %s' "$SLUICE_WEBHOOK_TOKEN"
    return
  fi
  local response value
  response=$(printf 'Authorization: Bearer %s' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN" |
    curl --fail --silent --show-error --max-time 30 --retry 3 --header @- \
      "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=$(encode "${SLUICE_AUDIENCE:-$SLUICE_URL}")") || return 1
  value=$(sed -n 's/.*"value" *: *"\([^"]*\)".*/\1/p' <<<"$response")
  [[ -n $value ]] || return 1
  echo "::add-mask::$value" >&2
  printf 'Authorization: Bearer %s' "$value"
}

# call calls the webhook. It prints the response body, and then the HTTP status as the last line.
call() {
  local header
  header=$(credential) || fail "The job could not get an ID token. Give the job the permission id-token: write."
  printf '%s' "$header" | curl --silent --show-error --max-time 330 --retry 3 --header @- --header 'Prefer: wait=300' --write-out '\n%{http_code}' "$@"
}

# report writes the result to the outputs and the summary of the workflow.
report() {
  local name value
  for name in status revision build image; do
    value=$(field "$1" "$name")
    [[ -z ${GITHUB_OUTPUT:-} ]] || echo "$name=$value" >>"$GITHUB_OUTPUT"
  done
  [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || printf 'Sluice: **%s**, revision %s\n\n`%s`\n' "$(state "$1")" "$(field "$1" revision)" "$(field "$1" image)" >>"$GITHUB_STEP_SUMMARY"
}

[[ -n ${SLUICE_URL:-} ]] || fail "The input url is required: the webhook's URL."
checkSecure "$SLUICE_URL"
[[ ${SLUICE_IMAGE:-} =~ ^[A-Za-z0-9._:/@-]*$ ]] || fail "The input image must be an image reference."
[[ ${SLUICE_COMMIT:-} =~ ^[0-9a-fA-F]*$ ]] || fail "The input commit must be a commit hash."
[[ ${SLUICE_TIMEOUT:=900} =~ ^[0-9]+$ ]] || fail "The input timeout must be a number of seconds."
[[ -n ${SLUICE_WEBHOOK_TOKEN:-} || -n ${ACTIONS_ID_TOKEN_REQUEST_URL:-} && -n ${ACTIONS_ID_TOKEN_REQUEST_TOKEN:-} ]] ||
  fail "The job has no token. Give it the permission id-token: write, or pass the webhook's token as a secret."
[[ -z ${SLUICE_WEBHOOK_TOKEN:-} ]] || echo "::add-mask::$SLUICE_WEBHOOK_TOKEN"

body="{\"commit\":\"${SLUICE_COMMIT:-}\"}"
[[ -z ${SLUICE_IMAGE:-} ]] || body="{\"image\":\"$SLUICE_IMAGE\",\"commit\":\"${SLUICE_COMMIT:-}\"}"
# The jobs of a matrix share one name, so the delivery ID contains a checksum of the matrix and the body.
checksum=$(printf '%s\n%s' "${SLUICE_MATRIX:-}" "$body" | cksum)
delivery="github-${GITHUB_RUN_ID:-0}-${GITHUB_RUN_ATTEMPT:-0}-${GITHUB_JOB:-job}-${GITHUB_ACTION:-action}-${checksum%% *}"

response=$(call --header 'Content-Type: application/json' --header "Idempotency-Key: $delivery" --data "$body" "$SLUICE_URL") || fail "The webhook could not be called."
started=$SECONDS
while :; do
  code=${response##*$'\n'}
  status=$(field "$response" status)
  case $code in
    2??) ;;
    429 | 5??)
      ((SECONDS - started < SLUICE_TIMEOUT)) || fail "The webhook returned $code: $(field "$response" message)"
      ;;
    *) fail "The webhook returned $code $(field "$response" code): $(field "$response" message)" ;;
  esac
  case $status in
    live | deployed | superseded | ignored | pong) break ;;
    failed)
      report "$response"
      fail "The deployment failed: $(field "$response" message)"
      ;;
  esac
  ((SECONDS - started < SLUICE_TIMEOUT)) || fail "The deployment did not finish within $SLUICE_TIMEOUT seconds. It is still in progress."
  sleep "${SLUICE_PAUSE:-5}"
  url=$(field "$response" status_url)
  status_url=${url:-${status_url:-}}
  if [[ -n $status_url ]]; then
    checkSecure "$status_url"
    response=$(call "$status_url") || fail "The deployment's status could not be read."
  else
    response=$(call --header 'Content-Type: application/json' --header "Idempotency-Key: $delivery" --data "$body" "$SLUICE_URL") || fail "The webhook could not be called."
  fi
done
report "$response"
echo "Sluice: $(state "$response"), revision $(field "$response" revision), $(field "$response" image)"
