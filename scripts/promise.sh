# Sourced by the scripts beside it: `deltafin` held to its memory budget from outside.
#
# The caller sets `deltafin`, the program, and `work`, a folder for what is left lying about.

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

mib() { echo "$(($1 >> 20)) MiB"; }

# smallest ARGUMENTS...: the least budget that `deltafin run ARGUMENTS` accepts, in MiB.
smallest() { named run "$@"; }

# named COMMAND...: the same for any command of deltafin. The refusal of one that is far too small names it, and
# so does that of one byte less.
named() {
  local refusal mib
  refusal=$("$deltafin" "$@" --memory 1M 2>&1 >/dev/null) && fail 'a budget of 1 MiB was not refused'
  grep -q 'give --memory [0-9]*M' <<<"$refusal" || fail "no budget is named: $refusal"
  mib=$(sed -n 's/.*give --memory \([0-9]*\)M.*/\1/p' <<<"$refusal")
  refusal=$("$deltafin" "$@" --memory $(((mib << 20) - 1)) 2>&1 >/dev/null) && fail "one byte less than ${mib}M was not refused"
  grep -q "give --memory ${mib}M" <<<"$refusal" || fail "$1 names ${mib}M, and then another budget: $refusal"
  echo "$mib"
}

# keeps BUDGET_MIB ARGUMENTS...: runs `deltafin run ARGUMENTS` with this budget in a control group that
# kills it at LIMIT_PERCENT (105) of it, and fails unless it ends well with no more than the budget
# resident. What it printed is in $work/printed. Where no group can be made, that is said once.
keeps() { holds "$1" run "${@:2}"; }

# refuses BUDGET_MIB WORDS COMMAND...: the same for a command that is refused with these words.
refuses() {
  local words=$2
  wanted_status=1 holds "$1" "${@:3}"
  grep -q "$words" "$work/said" || fail "$3 was not refused with '$words'" "$(cat "$work/said")"
}

# holds BUDGET_MIB COMMAND...: the same for any command of deltafin.
holds() {
  local budget=$1 bytes=$(($1 << 20)) status=0 began=$SECONDS
  shift
  python3 "$(dirname "${BASH_SOURCE[0]}")/limited.py" "$work/report" $((bytes / 100 * ${LIMIT_PERCENT:-105})) \
    "$deltafin" "$@" --memory "${budget}M" >"$work/printed" 2>"$work/said" || status=$?
  # shellcheck source=/dev/null
  . "$work/report"
  if [ "$limited" = no ] && [ -z "${said_unlimited:-}" ]; then
    said_unlimited=yes
    echo 'no control group with a limit can be made here: only resident memory is looked at'
  fi
  [ "$status" = "${wanted_status:-0}" ] || fail "$1 --memory ${budget}M: ended with $status (137: killed by the limit)" "$(cat "$work/said")"
  echo "$1 --memory ${budget}M: $(mib "$resident") resident, $(mib "$group") with the page cache," \
    "$((SECONDS - began)) s"
  [ "$resident" -le "$bytes" ] || fail "$1 --memory ${budget}M: the promise is broken"
}
