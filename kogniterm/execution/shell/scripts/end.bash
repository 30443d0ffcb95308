# Switch the options on again that `state` has switched off.
if [[ $__kt_flags == *u* ]]; then \builtin set -u; fi
if [[ $__kt_flags == *e* ]]; then \builtin set -e; fi
if [[ $__kt_flags == *f* ]]; then \builtin set -f; fi
if [[ $__kt_flags == *x* ]]; then \builtin set -x; fi
\builtin return "$__kt_status"
