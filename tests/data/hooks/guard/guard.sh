# Refuse commands that touch the production folder, or force a push.
input=$(cat)
if printf '%s' "$input" | grep -Eq '"command": *"[^"]*(production|push +(-f|--force))'; then
  echo "This command is not for agents; ask a maintainer." >&2
  exit 2
fi
exit 0
