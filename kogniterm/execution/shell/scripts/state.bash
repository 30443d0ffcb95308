# Print the state of a shell that ends, each part ended by a NUL (`capture._FIELDS`).
__kt_flags=$-
\builtin set +euxf
\builtin mapfile -d '' -t __kt_limits </proc/self/limits
if [[ ! -d $PWD ]]; then __kt_cwd=$(\builtin pwd -P || :); fi
\builtin printf '\0begin\0%s\0%s\0%s\0%s\0%s\0%s\0' "$__kt_status" "$__kt_pipe" \
  "$__kt_flags" "$__kt_last" "${__kt_cwd:-$PWD}" "$SECONDS"
\builtin umask; \builtin printf '\0'
\builtin declare -f; \builtin printf '\0'
\builtin declare -F; \builtin printf '\0'
\builtin declare -p; \builtin printf '\0'
\builtin alias -p; \builtin printf '\0'
\builtin trap -p; \builtin printf '\0'
\builtin enable -n; \builtin printf '\0'
if [[ ${#FUNCNAME[@]} -gt 1 ]]; then
  \builtin printf 'inside\0'; \builtin local -p
else
  if [[ $# -gt 0 ]]; then \builtin printf ' %q' "$@"; fi
  \builtin printf '\0'
fi
\builtin printf '\0'
\builtin dirs -l -p; \builtin printf '\0'
if [[ -n ${__kt_fire+x} ]]; then
  if [[ $__kt_fire == 1 || ( $__kt_fire == 0 && $__kt_exit != "$__kt_before" ) ||
    ( -n $__kt_fire && $__kt_flags == *e* && $__kt_status -ne 0 ) ]]
  then __kt_action=$__kt_exit __kt_exit=
  else __kt_action=
  fi
fi
\builtin printf '%s\0' "${__kt_exit-}"
