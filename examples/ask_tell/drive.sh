#!/bin/sh
# Ask for trials, run them, tell their values, until the budget is spent: sh drive.sh study.yaml
set -eu
study=$1
here=$(dirname "$0")

field() { # the value of a key of the trial
    printf '%s\n' "$trial" | sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p"
}

while :; do
    code=0
    trial=$(fidelium ask "$study") || code=$?
    [ "$code" -eq 1 ] && break      # the budget is spent
    [ "$code" -eq 0 ] || exit "$code"
    number=$(field number)
    if value=$(awk -v diameter="$(field diameter)" -v pipes="$(field pipes)" -v fidelity="$(field fidelity)" \
        -f "$here/pipe.awk"); then
        fidelium tell "$study" "$number" "$value"
    else
        fidelium tell "$study" "$number" --failed "awk ended with code $?"
    fi
done
fidelium best "$study"
