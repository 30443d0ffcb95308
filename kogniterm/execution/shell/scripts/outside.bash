# Print the background processes. One that ends at the same time as the shell could be reaped by it
# after the last look, and its exit code would be lost: so one that is about to end gets 20 ms, and
# what ends after that is noted as the leader would have noted it.
\builtin jobs -p; \builtin printf '\0%s\0' "$!"
if [[ -n $! ]]; then
  for __kt_n in 1 2 3 4 5 6 7 8 9 10; do
    if [[ ! -d /proc/$! ]]; then \builtin break; fi; \builtin read -t 0.002 __kt_r <>@NEVER@
  done
fi
if [[ -n $! && ! -d /proc/$! ]]; then \builtin wait "$!"; \builtin printf %s $?; __kt_n=; fi
\builtin printf '\0'
\builtin jobs -l; \builtin printf '\0\0\0end\0'
# Every shell has open: its terminal on 0, what its own trap stands in for (10 and 11, the terminal
# too), the trap's 1 and 2, and the folder of descriptors itself. When there is more, or one of them
# leads elsewhere, it asks for what it has to be taken over, and waits.
__kt_fds=(/proc/$$/fd/*)
if [[ ${#__kt_fds[@]} -ne 6 || ! -t 0 || ! -t 10 || ! -t 11 ]]; then
  \builtin printf '%d\n' $$ 1<>@ASK@; \builtin read -r -t 5 __kt_fds <>@ANSWER@
fi
if [[ -n $! && -n $__kt_n && ! -d /proc/$! ]]; then
  \builtin wait "$!"; \builtin printf '%d\n' $? >|@STATUSES@/$!
fi
