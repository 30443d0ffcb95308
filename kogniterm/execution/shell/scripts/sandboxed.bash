# Print whether the folder is gone, and whether there are descriptors of the shell's own, which
# nobody takes over here. Not counted is what `shell_files` gave it (90, 91, 95), the script (255),
# and where bash keeps its terminal while a redirection stands in for it (10 on, or 92 on). Process
# numbers in a sandbox mean other processes elsewhere, or none.
\builtin printf '\0%s\0\0\0' "$!"
if [[ ! -d ${__kt_cwd:-$PWD} ]]; then \builtin printf gone; fi; \builtin printf '\0'
__kt_fds=(/proc/$$/fd/*)
for __kt_n in "${__kt_fds[@]}"; do
  __kt_r=${__kt_n##*/}
  case $__kt_r in
    0|1|2|90|91|95|255) \builtin continue;;
    1[0-9]|2[0-9]|3[01]|9[2-4]) if [[ -t $__kt_r ]]; then \builtin continue; fi;;
  esac
  if [[ -e $__kt_n ]]; then \builtin printf held; \builtin break; fi
done
if [[ ! -t 0 ]]; then \builtin printf held; fi
\builtin printf '\0end\0'
