# Note which processes are disowned: they stay when the executor ends.
__kt_pids () {
  \builtin local __kt_n __kt_p __kt_r
  while \builtin read -r __kt_n __kt_p __kt_r; do
    case $__kt_n in
      [[]*) \builtin echo "$__kt_p";;
      [0-9]*) \builtin echo "$__kt_n";;
    esac
  done <<< "$(\builtin jobs -l)"
}
disown () {
  \builtin local IFS=$' \t\n' __kt_w __kt_all __kt_rest __kt_code=0
  \builtin local -a __kt_j __kt_a __kt_o
  __kt_a=() __kt_o=()
  for __kt_w; do
    case $__kt_w in
      -*) __kt_o+=("$__kt_w"); \builtin continue;;
    esac
    __kt_j=("$__kt_w")
    if \builtin declare -F __kt_job >/dev/null; then __kt_job "$__kt_w"; fi
    if [[ $__kt_j != %* ]]; then \builtin printf '%s\n' "${__kt_j[@]}" >>@DISOWNED@; fi
    if [[ $__kt_w != %* || $__kt_j == %* ]]; then __kt_a+=("$__kt_j"); fi
  done
  if [[ $# -eq 0 ]] && \builtin declare -F __kt_job >/dev/null; then
    __kt_job ''
    if [[ $__kt_j != %* ]]; then
      \builtin printf '%s\n' "${__kt_j[@]}" >>@DISOWNED@; \builtin return
    fi
  fi
  if [[ $# -gt 0 && ${#__kt_a[@]} -eq 0 && ${#__kt_o[@]} -eq 0 ]]; then \builtin return; fi
  __kt_all=" $(__kt_pids) "
  __kt_rest=" $(\builtin disown ${__kt_o[@]//h} "${__kt_a[@]}" 2>/dev/null; __kt_pids) "
  for __kt_w in $__kt_all; do
    case $'\n'${__kt_rest// /$'\n'}$'\n' in
      *$'\n'"$__kt_w"$'\n'*) ;;
      *) \builtin echo "$__kt_w" >>@DISOWNED@;;
    esac
  done
  \builtin disown "${__kt_o[@]}" "${__kt_a[@]}" || __kt_code=$?
  \builtin return $__kt_code
}
