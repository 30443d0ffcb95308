# Number the jobs of earlier commands first, and those of this shell after them.
__kt_job () {
  case $1 in
@CASES@    %[0-9]*) __kt_j=("%$((${1#%} - @HIGHEST@))");;
    ''|%|%+|%-|%%) __kt_j=(%+)
      if [[ -z $(\builtin jobs -p) ]]; then __kt_j=(@LAST@); fi;;
    *) __kt_j=("$1");;
  esac
}
jobs () {
  \builtin local __kt_p __kt_n __kt_t
  while \builtin read -r __kt_n __kt_p __kt_t; do
    if [[ ! -d /proc/$__kt_p || -e @FOLDER@/$__kt_p ]]; then continue; fi
    case ${1-} in
      -p) \builtin echo "$__kt_p";;
      -l) \builtin printf '[%d]  %5d %-24s%s\n' "$__kt_n" "$__kt_p" Running "$__kt_t";;
      *) \builtin printf '[%d]   %-24s%s\n' "$__kt_n" Running "$__kt_t";;
    esac
  done <<< @LIST@
  \builtin jobs "$@"
}
kill () {
  \builtin local __kt_p __kt_j; \builtin local -a __kt_a; __kt_a=()
  for __kt_p; do
    __kt_j=("$__kt_p"); if [[ $__kt_p == %* ]]; then __kt_job "$__kt_p"; fi
    __kt_a+=("${__kt_j[@]}")
  done
  # Processes of a pipe end each other: one that is gone is an error only when all are.
  if [[ ${#__kt_a[@]} -gt $# ]] && \builtin kill "${__kt_a[@]}" 2>/dev/null; then return; fi
  \builtin kill "${__kt_a[@]}"
}
fg () {
  \builtin local __kt_j; __kt_job "${1-}"
  if [[ $__kt_j == %* ]]; then \builtin fg "$__kt_j"; return; fi
  \builtin kill -CONT "${__kt_j[@]}" 2>/dev/null; wait "${__kt_j[-1]}"
}
bg () {
  \builtin local __kt_j; __kt_job "${1-}"
  if [[ $__kt_j == %* ]]; then \builtin bg "$__kt_j"; else \builtin kill -CONT "${__kt_j[@]}"; fi
}
