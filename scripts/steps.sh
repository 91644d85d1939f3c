# Sourced by the scripts beside it: named, timed steps. The first failure ends the script.

# step NAME COMMAND...
step() {
  step_name=$1 step_began=$SECONDS
  shift
  printf '\n==> %s\n' "$step_name"
  "$@"
  printf '==> ok: %s (%d s)\n' "$step_name" $((SECONDS - step_began))
  step_name=
}

# beside NAME COMMAND...: begins a command that runs while other steps do; what it says is kept for `joined`.
beside() {
  beside_name=$1 beside_said=$(mktemp)
  shift
  printf '\n==> %s: begun, beside what follows\n' "$beside_name"
  nice "$@" >"$beside_said" 2>&1 &
  beside_process=$!
}

# The command begun last is waited for, and succeeded.
joined() {
  local status=0
  wait "$beside_process" || status=$?
  cat "$beside_said"
  rm "$beside_said"
  beside_process=
  return "$status"
}

report_failure() {
  [ -z "${beside_process:-}" ] || kill "$beside_process" 2>/dev/null || true
  [ -z "${step_name:-}" ] || printf '==> FAILED: %s (%d s)\n' "$step_name" $((SECONDS - step_began)) >&2
}
trap report_failure EXIT

# The programs in the development build, with the features that `cargo test --workspace` builds them with: after it
# nothing is compiled a second time.
programs() { cargo build --locked --workspace --bins --examples --test cli; }

# tool NAME VERSION: a cargo subcommand, compiled without optimisation unless it is there already.
tool() {
  local name=$1 version=$2
  if command -v "$name" >/dev/null; then return; fi
  env -u RUSTC_BOOTSTRAP \
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_DEBUG=0 \
    cargo install --quiet --locked "$name" --version "$version"
}
