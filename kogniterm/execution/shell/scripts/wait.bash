# Know the background processes of earlier commands, by their exit codes in a folder.
wait () {
  \builtin local IFS=' ' __kt_all= __kt_p __kt_c=0 __kt_d=@FOLDER@ __kt_k=' @PIDS@ '
  if [[ $BASH_SUBSHELL -ne 0 || $1 == -* ]]; then \builtin wait "$@"; return; fi
  if [[ $# -eq 0 ]]; then \builtin wait; \builtin set -- $__kt_k; __kt_all=1; fi
  for __kt_p; do
    if [[ $__kt_p == %* ]] && \builtin declare -F __kt_job >/dev/null
    then \builtin local __kt_j; __kt_job "$__kt_p"; __kt_p=${__kt_j[-1]}; fi
    if [[ $__kt_k == *" $__kt_p "* ]]; then
      while [[ ! -e $__kt_d/$__kt_p && -d /proc/$__kt_p ]]; do
        \builtin read -t 0.05 <>"$__kt_d/never"
      done
      __kt_c=127; if [[ -e $__kt_d/$__kt_p ]]; then __kt_c=$(<"$__kt_d/$__kt_p"); fi
    else
      \builtin wait "$__kt_p"; __kt_c=$?
    fi
  done
  return $((__kt_all ? 0 : __kt_c))
}
