#!/usr/bin/env bash
# The demo's work by commands alone, as three people type it. Usage: by_hand.sh FOLDER [PORTS BANK_PORT RETAILER_PORT]
#
# FOLDER was made by `fedaccord demo --prepare --out FOLDER`; PORTS is first-last, where the bank's workers listen.
# FEDACCORD is the command, for example "python -m parties". What the commands print lies in FOLDER/*.json and *.log.
set -euo pipefail
cd "$1"
ports=${2:-7400-7409} bank_port=${3:-8081} retailer_port=${4:-8082}
read -ra command <<<"${FEDACCORD:-fedaccord}"

say() { printf '\n$ fedaccord %s\n' "$*" >&2; "${command[@]}" "$@"; }
fingerprint() { sed -n 's/^fingerprint  *\([^ ]*\).*/\1/p' "$1"; } # in life: read out over the telephone
ready() { # returns when the datasite of $1 is ready
    for _ in $(seq 3000); do
        grep -q 'datasite ready' "$1-serve.log" && return
        sleep 0.2
    done
    cat "$1-serve.log" >&2
    return 1
}

say init bank --name bank --organisation 'Example Bank' --link "127.0.0.1:$ports" --port "$bank_port" | tee bank-init.log
say init retailer --name retailer --organisation 'Example Retailer' --port "$retailer_port" | tee retailer-init.log
say init analyst --analyst --name ana --organisation 'Example Lab' | tee analyst-init.log

say peer add retailer/card.json --fingerprint "$(fingerprint retailer-init.log)" --state bank
say peer add bank/card.json --fingerprint "$(fingerprint bank-init.log)" --state retailer

say block add data/bank.csv --name customers --key customer --label income --split split --state bank
say block add data/retailer.csv --name customers --key customer --split split --state retailer

"${command[@]}" serve --state bank --inject-private-seed 0 >bank-serve.log 2>&1 &
bank=$!
"${command[@]}" serve --state retailer --inject-private-seed 0 >retailer-serve.log 2>&1 &
retailer=$!
trap 'kill "$bank" "$retailer" 2>/dev/null || true; wait' EXIT
ready bank
ready retailer

analyst=$(fingerprint analyst-init.log)
for party in bank retailer; do
    say user add analyst/card.json --fingerprint "$analyst" --email ana@lab.example.org --out $party-login.json --state $party
    say datasite add $party-login.json --state analyst
done

say request rehearse plan.toml --state analyst
say request submit plan.toml --skip-rehearsal --state analyst --json >submitted.json
digest=$(sed -n 's/.*"digest": "\([0-9a-f]*\)".*/\1/p' submitted.json)

for party in bank retailer; do
    say review show "$digest" --state $party >$party-review.txt
    say review approve "$digest" --as owner --reason 'demo on public data' --state $party
done

say request start "$digest" --watch --state analyst
say request status "$digest" --json --state analyst >status.json
say request result "$digest" --json --state analyst >result.json

# How the columns of one block look, while the analyst's command waits for the owner.
say describe bank/customers --columns hours-per-week,occupation --state analyst --json >described.json 2>describe.log &
describing=$!
for _ in $(seq 3000); do
    asked=$(sed -n 's/^request \([0-9a-f]*\) submitted.*/\1/p' describe.log 2>/dev/null || true)
    if [ -n "$asked" ] || ! kill -0 "$describing" 2>/dev/null; then break; fi
    sleep 0.2
done
say review approve "$asked" --as owner --reason 'demo on public data' --state bank || { cat describe.log >&2; exit 1; }
wait "$describing" || { cat describe.log >&2; exit 1; }

say audit heads --out heads --state bank
say audit heads --out heads --state retailer
for party in bank retailer; do
    say audit verify --head heads/$party-head.json --json --state $party >$party-audit.json
done
