# Completion for kogniterm in bash. Made by: kogniterm completion bash
_kogniterm_offer() {
    local left=${cur%"${cur##*:}"}
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
    COMPREPLY=("${COMPREPLY[@]#"$left"}")
}
_kogniterm_names() {
    case $1 in
        file) compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        folder) compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        *) local names
            names=$(kogniterm completion --list "$1" 2>/dev/null | cut -f1)
            _kogniterm_offer "$names" ;;
    esac
}
_kogniterm() {
    local at= i words=() said= kind= flags= cur prev
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i)) && [[ ${COMP_WORDS[i]} == :* || ${words[-1]} == *: ]]; then
            words[-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    cur=${words[-1]} prev=${words[-2]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
            --allow-secret|--at|--batch|--category|--command-timeout|--cwd|--digest|--effort|--env|--env-file|--executor|--file|--folder|--format|--header|--id|--input|--inputs|--inventory|--items|--lang|--limit|--lines|--list|--max-cost|--max-session-cost|--max-session-tokens|--max-steps|--max-tokens|--memory|--mode|--model|--note|--older-than|--only|--output|--plan|--plan-approval|--priority|--project|--prompt|--queue|--queues|--recipe|--resume|--secret|--session|--slot|--slots|--source|--state|--text|--timeout|--to|--tries|--turn|--vault-password-file|--workspace|-C|-n|-p) ((i++)); continue ;;
        esac
        case "$at/${words[i]}" in
            /run|/resume|/sessions|/sessions/list|/sessions/show|/sessions/search|/sessions/rename|/sessions/delete|/sessions/fork|/sessions/export|/sessions/report|/sessions/import|/replay|/hosts|/hosts/run|/hosts/diff|/queue|/queue/add|/queue/list|/queue/show|/queue/watch|/queue/inbox|/queue/cancel|/queue/retry|/queue/results|/queue/answer|/queue/key|/worker|/memory|/memory/list|/memory/search|/memory/show|/memory/lessons|/memory/add|/memory/edit|/memory/confirm|/memory/pin|/memory/undo|/memory/project|/memory/prefer|/memory/forget|/memory/export|/memory/import|/recipe|/recipe/save|/recipe/list|/recipe/show|/recipe/run|/policy|/policy/check|/policy/test|/policy/permissions|/policy/revoke|/tools|/skills|/skills/list|/skills/show|/skills/trust|/skills/off|/skills/on|/skills/add|/skills/remove|/hooks|/hooks/list|/hooks/test|/trust|/audit|/audit/verify|/audit/show|/audit/anchor|/tour|/login|/logout|/config|/config/show|/config/path|/config/prompts|/doctor|/logs|/models|/models/list|/models/pull|/models/remove|/mcp|/mcp/list|/mcp/add|/mcp/remove|/mcp/test|/mcp/trust|/mcp/login|/mcp/logout|/mcp/serve|/storage|/storage/check|/storage/copy|/completion|/help|/import|/acp|/warm|/warm/stop) at+=/${words[i]} ;;
        esac
    done
    case "$at:$prev" in
        :--lang) _kogniterm_offer 'auto en es'; return ;;
        :--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        :--memory) _kogniterm_offer 'off session full'; return ;;
        :--plan) _kogniterm_offer 'auto always never'; return ;;
        :--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        :--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /run:--lang) _kogniterm_offer 'auto en es'; return ;;
        /run:--output) _kogniterm_offer 'text json stream-json'; return ;;
        /run:--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        /run:--memory) _kogniterm_offer 'off session full'; return ;;
        /run:--plan) _kogniterm_offer 'auto always never'; return ;;
        /run:--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        /run:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /resume:--lang) _kogniterm_offer 'auto en es'; return ;;
        /resume:--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        /resume:--memory) _kogniterm_offer 'off session full'; return ;;
        /resume:--plan) _kogniterm_offer 'auto always never'; return ;;
        /resume:--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        /resume:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /sessions:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/show:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/search:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/rename:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/delete:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/fork:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/export:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/export:--format) _kogniterm_offer 'jsonl markdown atif'; return ;;
        /sessions/report:--lang) _kogniterm_offer 'auto en es'; return ;;
        /sessions/import:--lang) _kogniterm_offer 'auto en es'; return ;;
        /replay:--lang) _kogniterm_offer 'auto en es'; return ;;
        /hosts:--lang) _kogniterm_offer 'auto en es'; return ;;
        /hosts/run:--lang) _kogniterm_offer 'auto en es'; return ;;
        /hosts/run:--output) _kogniterm_offer 'text json stream-json'; return ;;
        /hosts/run:--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        /hosts/run:--memory) _kogniterm_offer 'off session full'; return ;;
        /hosts/run:--plan) _kogniterm_offer 'auto always never'; return ;;
        /hosts/run:--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        /hosts/run:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /hosts/diff:--lang) _kogniterm_offer 'auto en es'; return ;;
        /hosts/diff:--output) _kogniterm_offer 'text json'; return ;;
        /queue:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/add:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/add:--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        /queue/add:--memory) _kogniterm_offer 'off session full'; return ;;
        /queue/add:--plan) _kogniterm_offer 'auto always never'; return ;;
        /queue/add:--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        /queue/add:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /queue/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/show:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/watch:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/inbox:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/cancel:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/retry:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/results:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/answer:--lang) _kogniterm_offer 'auto en es'; return ;;
        /queue/key:--lang) _kogniterm_offer 'auto en es'; return ;;
        /worker:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/search:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/show:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/lessons:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/add:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/add:--category) _kogniterm_offer 'preference requirement constraint feedback project learning fact'; return ;;
        /memory/edit:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/confirm:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/pin:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/undo:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/project:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/prefer:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/forget:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/export:--lang) _kogniterm_offer 'auto en es'; return ;;
        /memory/import:--lang) _kogniterm_offer 'auto en es'; return ;;
        /recipe:--lang) _kogniterm_offer 'auto en es'; return ;;
        /recipe/save:--lang) _kogniterm_offer 'auto en es'; return ;;
        /recipe/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /recipe/show:--lang) _kogniterm_offer 'auto en es'; return ;;
        /recipe/run:--lang) _kogniterm_offer 'auto en es'; return ;;
        /recipe/run:--output) _kogniterm_offer 'text json stream-json'; return ;;
        /recipe/run:--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        /recipe/run:--memory) _kogniterm_offer 'off session full'; return ;;
        /recipe/run:--plan) _kogniterm_offer 'auto always never'; return ;;
        /recipe/run:--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        /recipe/run:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /policy:--lang) _kogniterm_offer 'auto en es'; return ;;
        /policy/check:--lang) _kogniterm_offer 'auto en es'; return ;;
        /policy/check:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /policy/test:--lang) _kogniterm_offer 'auto en es'; return ;;
        /policy/test:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /policy/permissions:--lang) _kogniterm_offer 'auto en es'; return ;;
        /policy/revoke:--lang) _kogniterm_offer 'auto en es'; return ;;
        /tools:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills/show:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills/trust:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills/off:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills/on:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills/add:--lang) _kogniterm_offer 'auto en es'; return ;;
        /skills/remove:--lang) _kogniterm_offer 'auto en es'; return ;;
        /hooks:--lang) _kogniterm_offer 'auto en es'; return ;;
        /hooks/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /hooks/test:--lang) _kogniterm_offer 'auto en es'; return ;;
        /trust:--lang) _kogniterm_offer 'auto en es'; return ;;
        /audit:--lang) _kogniterm_offer 'auto en es'; return ;;
        /audit/verify:--lang) _kogniterm_offer 'auto en es'; return ;;
        /audit/show:--lang) _kogniterm_offer 'auto en es'; return ;;
        /audit/anchor:--lang) _kogniterm_offer 'auto en es'; return ;;
        /tour:--lang) _kogniterm_offer 'auto en es'; return ;;
        /login:--lang) _kogniterm_offer 'auto en es'; return ;;
        /logout:--lang) _kogniterm_offer 'auto en es'; return ;;
        /config:--lang) _kogniterm_offer 'auto en es'; return ;;
        /config/show:--lang) _kogniterm_offer 'auto en es'; return ;;
        /config/path:--lang) _kogniterm_offer 'auto en es'; return ;;
        /config/prompts:--lang) _kogniterm_offer 'auto en es'; return ;;
        /doctor:--lang) _kogniterm_offer 'auto en es'; return ;;
        /logs:--lang) _kogniterm_offer 'auto en es'; return ;;
        /models:--lang) _kogniterm_offer 'auto en es'; return ;;
        /models/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /models/pull:--lang) _kogniterm_offer 'auto en es'; return ;;
        /models/remove:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/list:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/add:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/remove:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/test:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/trust:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/login:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/logout:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/serve:--lang) _kogniterm_offer 'auto en es'; return ;;
        /mcp/serve:--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        /mcp/serve:--memory) _kogniterm_offer 'off session full'; return ;;
        /mcp/serve:--plan) _kogniterm_offer 'auto always never'; return ;;
        /mcp/serve:--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        /mcp/serve:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /storage:--lang) _kogniterm_offer 'auto en es'; return ;;
        /storage/check:--lang) _kogniterm_offer 'auto en es'; return ;;
        /storage/copy:--lang) _kogniterm_offer 'auto en es'; return ;;
        /completion:--lang) _kogniterm_offer 'auto en es'; return ;;
        /completion:--list) _kogniterm_offer 'sessions models recipes'; return ;;
        /help:--lang) _kogniterm_offer 'auto en es'; return ;;
        /import:--lang) _kogniterm_offer 'auto en es'; return ;;
        /acp:--lang) _kogniterm_offer 'auto en es'; return ;;
        /acp:--effort) _kogniterm_offer 'default none minimal low medium high xhigh max'; return ;;
        /acp:--memory) _kogniterm_offer 'off session full'; return ;;
        /acp:--plan) _kogniterm_offer 'auto always never'; return ;;
        /acp:--plan-approval) _kogniterm_offer 'auto always never'; return ;;
        /acp:--mode) _kogniterm_offer 'ask accept-edits auto plan'; return ;;
        /warm:--lang) _kogniterm_offer 'auto en es'; return ;;
        /warm/stop:--lang) _kogniterm_offer 'auto en es'; return ;;
        *:--env-file|*:--file|*:--source|*:--to) _kogniterm_names file; return ;;
        *:--cwd|*:--folder|*:--project|*:-C) _kogniterm_names folder; return ;;
        *:--model) _kogniterm_names models; return ;;
        *:--resume|*:--session) _kogniterm_names sessions; return ;;
        *:--allow-secret|*:--at|*:--batch|*:--category|*:--command-timeout|*:--cwd|*:--digest|*:--effort|*:--env|*:--env-file|*:--executor|*:--file|*:--folder|*:--format|*:--header|*:--id|*:--input|*:--inputs|*:--inventory|*:--items|*:--lang|*:--limit|*:--lines|*:--list|*:--max-cost|*:--max-session-cost|*:--max-session-tokens|*:--max-steps|*:--max-tokens|*:--memory|*:--mode|*:--model|*:--note|*:--older-than|*:--only|*:--output|*:--plan|*:--plan-approval|*:--priority|*:--project|*:--prompt|*:--queue|*:--queues|*:--recipe|*:--resume|*:--secret|*:--session|*:--slot|*:--slots|*:--source|*:--state|*:--text|*:--timeout|*:--to|*:--tries|*:--turn|*:--vault-password-file|*:--workspace|*:-C|*:-n|*:-p) return ;;
    esac
    case "$at" in
        '') said='run resume sessions replay hosts queue worker memory recipe policy tools skills hooks trust audit tour login logout config doctor logs models mcp storage completion help import acp warm' flags='-h --help --lang --env-file --debug -V --version -p --prompt --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/run') kind=file flags='-h --help --lang --env-file --debug --output --session --park --note --secret --allow-secret --plan-only --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/resume') kind=sessions flags='-h --help --lang --env-file --debug --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/sessions') said='list show search rename delete fork export report import' flags='-h --help --lang --env-file --debug' ;;
        '/sessions/list') flags='-h --help --lang --env-file --debug --here --all --limit --json' ;;
        '/sessions/show') kind=sessions flags='-h --help --lang --env-file --debug --json' ;;
        '/sessions/search') flags='-h --help --lang --env-file --debug --limit --json' ;;
        '/sessions/rename') kind=sessions flags='-h --help --lang --env-file --debug --json' ;;
        '/sessions/delete') kind=sessions flags='-h --help --lang --env-file --debug --older-than --yes --json' ;;
        '/sessions/fork') kind=sessions flags='-h --help --lang --env-file --debug --turn --json' ;;
        '/sessions/export') kind=sessions flags='-h --help --lang --env-file --debug --format --to' ;;
        '/sessions/report') kind=sessions flags='-h --help --lang --env-file --debug --to' ;;
        '/sessions/import') kind=file flags='-h --help --lang --env-file --debug --as-new --json' ;;
        '/replay') kind=sessions flags='-h --help --lang --env-file --debug --live --folder --json' ;;
        '/hosts') said='run diff' flags='-h --help --lang --env-file --debug' ;;
        '/hosts/run') kind=file flags='-h --help --lang --env-file --debug --inventory --limit --ask-become-pass --vault-password-file --ask-vault-pass --output --session --park --plan-only --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/hosts/diff') flags='-h --help --lang --env-file --debug --inventory --limit --become --ask-become-pass --vault-password-file --ask-vault-pass --output' ;;
        '/queue') said='add list show watch inbox cancel retry results answer key' flags='-h --help --lang --env-file --debug' ;;
        '/queue/add') kind=file flags='-h --help --lang --env-file --debug --file --recipe --items --workspace --here --id --queue --batch --at --priority --tries --json --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/queue/list') flags='-h --help --lang --env-file --debug --state --batch --all-users --limit --json' ;;
        '/queue/show') flags='-h --help --lang --env-file --debug --diff --json' ;;
        '/queue/watch') flags='-h --help --lang --env-file --debug --batch --forever' ;;
        '/queue/inbox') flags='-h --help --lang --env-file --debug --json' ;;
        '/queue/cancel') flags='-h --help --lang --env-file --debug --batch --state --json' ;;
        '/queue/retry') flags='-h --help --lang --env-file --debug --batch --state --text --json' ;;
        '/queue/results') flags='-h --help --lang --env-file --debug --batch --state' ;;
        '/queue/answer') kind=sessions flags='-h --help --lang --env-file --debug --digest --file --json' ;;
        '/queue/key') said='export import' kind=file flags='-h --help --lang --env-file --debug' ;;
        '/worker') flags='-h --help --lang --env-file --debug --queues --slots --until-empty' ;;
        '/memory') said='list search show lessons add edit confirm pin undo project prefer forget export import' flags='-h --help --lang --env-file --debug' ;;
        '/memory/list') flags='-h --help --lang --env-file --debug --all --json --project' ;;
        '/memory/search') flags='-h --help --lang --env-file --debug --limit --json --project' ;;
        '/memory/show') flags='-h --help --lang --env-file --debug --json --project' ;;
        '/memory/lessons') flags='-h --help --lang --env-file --debug --json --project' ;;
        '/memory/add') flags='-h --help --lang --env-file --debug --category --slot --everywhere --json --project' ;;
        '/memory/edit') flags='-h --help --lang --env-file --debug --json --project' ;;
        '/memory/confirm') flags='-h --help --lang --env-file --debug --json --project' ;;
        '/memory/pin') flags='-h --help --lang --env-file --debug --off --json --project' ;;
        '/memory/undo') flags='-h --help --lang --env-file --debug --json --project' ;;
        '/memory/project') said='rescan' flags='-h --help --lang --env-file --debug --json --project' ;;
        '/memory/prefer') flags='-h --help --lang --env-file --debug --here --remove --json --project' ;;
        '/memory/forget') flags='-h --help --lang --env-file --debug --all --here --session --yes --json --project' ;;
        '/memory/export') flags='-h --help --lang --env-file --debug --to --no-redact --json --project' ;;
        '/memory/import') kind=file flags='-h --help --lang --env-file --debug --yes --json --project' ;;
        '/recipe') said='save list show run' flags='-h --help --lang --env-file --debug' ;;
        '/recipe/save') flags='-h --help --lang --env-file --debug --file --session --replace' ;;
        '/recipe/list') flags='-h --help --lang --env-file --debug --json' ;;
        '/recipe/show') kind=recipes flags='-h --help --lang --env-file --debug --schema --json' ;;
        '/recipe/run') kind=recipes flags='-h --help --lang --env-file --debug --inputs --output --session --park --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/policy') said='check test permissions revoke' flags='-h --help --lang --env-file --debug' ;;
        '/policy/check') flags='-h --help --lang --env-file --debug -C --cwd --mode --file --json' ;;
        '/policy/test') flags='-h --help --lang --env-file --debug --mode --file --json' ;;
        '/policy/permissions') flags='-h --help --lang --env-file --debug --json' ;;
        '/policy/revoke') flags='-h --help --lang --env-file --debug --json' ;;
        '/tools') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/skills') said='list show trust off on add remove' flags='-h --help --lang --env-file --debug' ;;
        '/skills/list') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/skills/show') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/skills/trust') flags='-h --help --lang --env-file --debug --yes -C --cwd --json' ;;
        '/skills/off') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/skills/on') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/skills/add') kind=folder flags='-h --help --lang --env-file --debug --json' ;;
        '/skills/remove') flags='-h --help --lang --env-file --debug --yes --json' ;;
        '/hooks') said='list test' flags='-h --help --lang --env-file --debug' ;;
        '/hooks/list') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/hooks/test') flags='-h --help --lang --env-file --debug --input -C --cwd --json' ;;
        '/trust') flags='-h --help --lang --env-file --debug --show --revoke --list -C --cwd --json' ;;
        '/audit') said='verify show anchor' flags='-h --help --lang --env-file --debug' ;;
        '/audit/verify') kind=sessions flags='-h --help --lang --env-file --debug --json' ;;
        '/audit/show') kind=sessions flags='-h --help --lang --env-file --debug --json' ;;
        '/audit/anchor') flags='-h --help --lang --env-file --debug --yes --json' ;;
        '/tour') flags='-h --help --lang --env-file --debug --auto' ;;
        '/login') flags='-h --help --lang --env-file --debug --no-test' ;;
        '/logout') flags='-h --help --lang --env-file --debug' ;;
        '/config') said='show path prompts' flags='-h --help --lang --env-file --debug' ;;
        '/config/show') flags='-h --help --lang --env-file --debug --changed --json' ;;
        '/config/path') flags='-h --help --lang --env-file --debug --json' ;;
        '/config/prompts') said='show copy diff' flags='-h --help --lang --env-file --debug --json' ;;
        '/doctor') flags='-h --help --lang --env-file --debug --online --json' ;;
        '/logs') flags='-h --help --lang --env-file --debug --session -n --lines -f --follow' ;;
        '/models') said='list pull remove' flags='-h --help --lang --env-file --debug' ;;
        '/models/list') flags='-h --help --lang --env-file --debug --json' ;;
        '/models/pull') flags='-h --help --lang --env-file --debug --source' ;;
        '/models/remove') flags='-h --help --lang --env-file --debug' ;;
        '/mcp') said='list add remove test trust login logout serve' flags='-h --help --lang --env-file --debug' ;;
        '/mcp/list') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/mcp/add') flags='-h --help --lang --env-file --debug --env --header --network --project -C --cwd --json' ;;
        '/mcp/remove') flags='-h --help --lang --env-file --debug --project -C --cwd --json' ;;
        '/mcp/test') flags='-h --help --lang --env-file --debug -C --cwd --json' ;;
        '/mcp/trust') flags='-h --help --lang --env-file --debug --yes -C --cwd --json' ;;
        '/mcp/login') flags='-h --help --lang --env-file --debug' ;;
        '/mcp/logout') flags='-h --help --lang --env-file --debug --json' ;;
        '/mcp/serve') flags='-h --help --lang --env-file --debug --folder --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/storage') said='check copy' flags='-h --help --lang --env-file --debug' ;;
        '/storage/check') flags='-h --help --lang --env-file --debug --json' ;;
        '/storage/copy') kind=file flags='-h --help --lang --env-file --debug --json' ;;
        '/completion') said='bash zsh fish' flags='-h --help --lang --env-file --debug --list' ;;
        '/help') said='approvals sandbox models keys memory sessions scripts rules plans costs privacy run resume replay hosts queue worker recipe policy tools skills hooks trust audit tour login logout config doctor logs mcp storage completion help import acp warm' flags='-h --help --lang --env-file --debug' ;;
        '/import') said='claude codex gemini opencode deepagents' flags='-h --help --lang --env-file --debug --only --replace --project --dry-run -C --cwd --yes --json' ;;
        '/acp') flags='-h --help --lang --env-file --debug --model --effort --memory --plan --plan-approval -y --auto-approve --mode --allow-reads --no-sandbox --no-hooks --executor -C --cwd -c --continue --resume --end-jobs --timeout --command-timeout --max-steps --max-tokens --max-cost --max-session-tokens --max-session-cost' ;;
        '/warm') said='stop' flags='-h --help --lang --env-file --debug' ;;
        '/warm/stop') flags='-h --help --lang --env-file --debug --json' ;;
    esac
    if [[ $cur == -* ]]; then
        _kogniterm_offer "$flags"
    elif [[ -n $said ]]; then
        _kogniterm_offer "$said"
    elif [[ -n $kind ]]; then
        _kogniterm_names "$kind"
    fi
}
complete -F _kogniterm kogniterm
