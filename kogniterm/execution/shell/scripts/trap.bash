# Keep the action of an EXIT trap beside our own, which writes the state.
trap () {
  if [[ $# -eq 0 || $1 == -p ]]; then
    \builtin local __kt_t __kt_q="'\\''"; __kt_t=$(\builtin trap -p "${@:2}")
    if [[ $__kt_t == *$'left-'*"' EXIT"* ]]; then
      __kt_t=${__kt_t#*"' EXIT"}; __kt_t=${__kt_t#$'\n'}
      if [[ -n $__kt_exit ]]
      then \builtin printf "trap -- '%s' EXIT\n" "${__kt_exit//"'"/"$__kt_q"}"; fi
    fi
    if [[ -n $__kt_t ]]; then \builtin printf '%s\n' "$__kt_t"; fi
    return
  fi
  if [[ $BASH_SUBSHELL -ne 0 || $1 == -l ]]; then \builtin trap "$@"; return; fi
  if [[ $1 == -- ]]; then \builtin shift; fi
  if [[ $# -eq 1 ]]; then \builtin set -- - "$1"; fi
  \builtin local __kt_a __kt_s; \builtin local -a __kt_r; __kt_a=$1 __kt_r=(); \builtin shift
  for __kt_s; do
    case ${__kt_s^^} in
      EXIT|SIGEXIT|0) if [[ $__kt_a == - ]]; then __kt_exit=; else __kt_exit=$__kt_a; fi;;
      *) __kt_r+=("$__kt_s");;
    esac
  done
  if [[ ${#__kt_r[@]} -gt 0 ]]; then \builtin trap -- "$__kt_a" "${__kt_r[@]}"; fi
}
