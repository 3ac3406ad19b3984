# bash completion for dibs(1)                                    -*- shell-script -*-
#
# Words and options are listed here, ids come from the store: dibs ... --quiet prints ids only. The
# tests compare the lists with "dibs help --commands".

# Options with a value, so that the value is not taken for a word of the command.
_dibs_valued="--ack --agent --agent-id --agent-type --as --assignee --auto-cleanup --capability
    --channel --checkpoint --claim-timeout --cleanup-interval --count --cursor --data
    --dedupe-key --default-ttl --depends-on --description --error --event-retention
    --expiring-threshold --extend --grace --heartbeat-interval --host --id
    --idempotency-key --idle-timeout --interval --limit --listen --lock-ttl --log-dir
    --matched --max --max-attempts --max-attempts-remaining --max-connections --max-ttl
    --message --metadata --min-ttl --offer-ttl --order --orphan-threshold --param
    --params --percent --phase --pid --priority --project --prompt --rate --reason
    --reply-to --request-timeout --resource --result --role --run-after --session
    --since --sort --source --stale-threshold --status --tag --task --thread
    --time-limit --title --token --ttl --type --types --url --user --version --wait
    --warning-threshold"

_dibs_every="--data --url --session --project --json --quiet --no-color --help --default-ttl
    --min-ttl --max-ttl --heartbeat-interval --cleanup-interval --lock-ttl
    --orphan-threshold --warning-threshold --expiring-threshold --stale-threshold
    --event-retention --offer-ttl --auto-cleanup -q -h"

_dibs_options()
{
    case "$1" in
    "init") ;;
    "config") ;;
    "doctor")
        echo "--deep"
        ;;
    "backup") ;;
    "task add")
        echo "--id --description --type --phase --priority --tag --param --params --metadata
            --depends-on --run-after --max-attempts --claim-timeout --assignee --dedupe-key
            --idempotency-key -p -t"
        ;;
    "task list")
        echo "--status --all --type --phase --tag --assignee --session --limit --cursor -a -t -n"
        ;;
    "task show")
        echo "--history"
        ;;
    "task edit")
        echo "--title --description --type --phase --priority --tag --param --params --metadata
            --depends-on --run-after --max-attempts --claim-timeout --version -p -t"
        ;;
    "task import")
        echo "--skip-existing"
        ;;
    "claim")
        echo "--next --ttl --type --tag --wait --count --sort --order --max-attempts-remaining
            --agent-type --pid --idempotency-key -t -w -n"
        ;;
    "heartbeat")
        echo "--extend --token"
        ;;
    "progress")
        echo "--percent --message --checkpoint --token -m"
        ;;
    "done")
        echo "--result --next --token"
        ;;
    "fail")
        echo "--error --permanent --next --token -m"
        ;;
    "release")
        echo "--reason --token -m"
        ;;
    "block")
        echo "--reason -m"
        ;;
    "unblock") ;;
    "cancel")
        echo "--reason -m"
        ;;
    "reopen")
        echo "--reason -m"
        ;;
    "offer") ;;
    "accept")
        echo "--agent"
        ;;
    "reject")
        echo "--agent --reason -m"
        ;;
    "assign") ;;
    "poll")
        echo "--agent --wait --claim --type --ack --ttl --pid -w"
        ;;
    "notices ack") ;;
    "notices release") ;;
    "agent register")
        echo "--id --lead --worker --max --capability --metadata"
        ;;
    "agent list")
        echo "--leads --workers"
        ;;
    "agent show") ;;
    "inbox add")
        echo "--agent --source --channel --thread --user --matched --metadata --id
            --idempotency-key"
        ;;
    "inbox list")
        echo "--status --agent --source --limit --cursor -n"
        ;;
    "inbox show") ;;
    "inbox claim")
        echo "--agent --count --ttl -n"
        ;;
    "inbox read")
        echo "--token"
        ;;
    "inbox respond")
        echo "--token"
        ;;
    "inbox delegate")
        echo "--task --title --description --type --priority --tag --param --assignee
            --token -p -t"
        ;;
    "inbox release")
        echo "--token"
        ;;
    "channel create")
        echo "--description"
        ;;
    "channel list") ;;
    "channel post")
        echo "--as --reply-to --idempotency-key"
        ;;
    "channel messages")
        echo "--limit --cursor -n"
        ;;
    "channel read")
        echo "--agent --limit -n"
        ;;
    "mentions claim")
        echo "--agent --ttl"
        ;;
    "mentions release")
        echo "--agent --read"
        ;;
    "agent scores") ;;
    "run")
        echo "--agent --type --max --ttl --time-limit --grace --prompt --log-dir --once
            --drain-when-empty --shell -n"
        ;;
    "session register")
        echo "--agent-type --agent-id --pid --host --metadata"
        ;;
    "session list")
        echo "--all --limit --cursor -a -n"
        ;;
    "session show") ;;
    "session heartbeat") ;;
    "session resume") ;;
    "session end") ;;
    "session summary") ;;
    "lock")
        echo "--shared --ttl --wait -w"
        ;;
    "lock take")
        echo "--shared --ttl --wait --pid -w"
        ;;
    "lock heartbeat")
        echo "--extend --token"
        ;;
    "lock release")
        echo "--token"
        ;;
    "lock list")
        echo "--resource --session"
        ;;
    "key add")
        echo "--role --rate"
        ;;
    "key list")
        echo "--all -a"
        ;;
    "key revoke") ;;
    "in-flight")
        echo "--session --include-expired --limit -n"
        ;;
    "stats") ;;
    "scores") ;;
    "cleanup")
        echo "--type --no-process-check --session --reason -m"
        ;;
    "events")
        echo "--follow --since --types --task --summary --limit -f -n"
        ;;
    "watch")
        echo "--since --types --task --summary"
        ;;
    "top")
        echo "--once --interval"
        ;;
    "serve")
        echo "--listen --host --max-connections --idle-timeout --request-timeout --log-requests --init -l"
        ;;
    "help") ;;
    "version") ;;
    esac
}

_dibs_words()
{
    case "$1" in
    "")
        echo "init config doctor backup task claim heartbeat progress done fail release block
            unblock cancel reopen offer accept reject assign poll notices agent inbox
            channel mentions session lock key in-flight stats scores cleanup events watch
            top serve run help version"
        ;;
    agent) echo "register list show scores" ;;
    channel) echo "create list post messages read" ;;
    inbox) echo "add list show claim read respond delegate release" ;;
    mentions) echo "claim release" ;;
    notices) echo "ack release" ;;
    key) echo "add list revoke" ;;
    lock) echo "take heartbeat release list" ;;
    session) echo "register list show heartbeat resume end summary" ;;
    task) echo "add list show edit import" ;;
    help)
        _dibs_words ""
        ;;
    esac
}

# The words that a command takes: ids of tasks, sessions or locks.
_dibs_ids()
{
    case "$1" in
    "task show" | "task edit")
        dibs task list --quiet --all 2>/dev/null
        ;;
    claim)
        dibs task list --quiet --status open,assigned 2>/dev/null
        ;;
    heartbeat | progress | done | fail | release)
        dibs task list --quiet --status in_progress 2>/dev/null
        ;;
    block | cancel)
        dibs task list --quiet 2>/dev/null
        ;;
    unblock)
        dibs task list --quiet --status blocked 2>/dev/null
        ;;
    reopen)
        dibs task list --quiet --status completed,failed,cancelled 2>/dev/null
        ;;
    "session show" | "session heartbeat" | "session resume" | \
        "session end" | "session register")
        dibs session list --quiet 2>/dev/null
        ;;
    "lock release" | "lock heartbeat") dibs lock list --quiet 2>/dev/null ;;
    accept | reject) dibs task list --quiet --status offered,reviewing 2>/dev/null ;;
    offer | assign) dibs task list --quiet 2>/dev/null ;;
    "agent show") dibs agent list --quiet 2>/dev/null ;;
    "inbox show") dibs inbox list --quiet 2>/dev/null ;;
    "inbox read" | "inbox respond" | "inbox delegate")
        dibs inbox list --quiet --status unread 2>/dev/null
        dibs inbox list --quiet --status processing 2>/dev/null
        ;;
    "inbox release") dibs inbox list --quiet --status processing 2>/dev/null ;;
    "channel post" | "channel messages" | "channel read" | "mentions release")
        dibs channel list --quiet 2>/dev/null
        ;;
    "key revoke") dibs key list --quiet 2>/dev/null ;;
    esac
}

# Completes the value of an option; fails when the option has none that can be known.
_dibs_value()
{
    local current=$3 ids
    case "$1" in
    --data | --log-dir) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    --prompt) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --status)
        if [ "$2" = "inbox list" ]; then
            mapfile -t COMPREPLY < <(compgen -W "unread processing read responded delegated" \
                -- "$current")
            return
        fi
        mapfile -t COMPREPLY < <(compgen -W "open offered reviewing assigned in_progress blocked
            completed failed cancelled" -- "$current")
        ;;
    --priority | -p)
        mapfile -t COMPREPLY < <(compgen -W "critical high medium low" -- "$current")
        ;;
    --sort) mapfile -t COMPREPLY < <(compgen -W "priority created_at random" -- "$current") ;;
    --role) mapfile -t COMPREPLY < <(compgen -W "read worker admin" -- "$current") ;;
    --ack) mapfile -t COMPREPLY < <(compgen -W "manual auto" -- "$current") ;;
    --agent | --as | --assignee)
        ids=$(dibs agent list --quiet 2>/dev/null)
        mapfile -t COMPREPLY < <(compgen -W "$ids" -- "$current")
        ;;
    --order) mapfile -t COMPREPLY < <(compgen -W "asc desc" -- "$current") ;;
    --session)
        ids=$(dibs session list --quiet 2>/dev/null)
        mapfile -t COMPREPLY < <(compgen -W "$ids" -- "$current")
        ;;
    --depends-on | --task)
        ids=$(dibs task list --quiet 2>/dev/null)
        mapfile -t COMPREPLY < <(compgen -W "$ids" -- "$current")
        ;;
    --type)
        [ "$2" = cleanup ] || return 1
        mapfile -t COMPREPLY < <(compgen -W "expired orphaned locks sessions events session" \
            -- "$current")
        ;;
    *) return 1 ;;
    esac
}

_dibs()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command="" words="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
        --)
            # behind it stands a command of its own
            [[ $command == lock || $command == run ]] &&
                mapfile -t COMPREPLY < <(compgen -c -- "$current")
            return
            ;;
        -*) [[ " ${_dibs_valued//$'\n'/ } " == *" ${COMP_WORDS[i]} "* ]] && ((i++)) ;;
        *)
            if [ -z "$command" ]; then
                command=${COMP_WORDS[i]}
            elif [[ $(_dibs_words "$command") =~ (^|[[:space:]])"${COMP_WORDS[i]}"($|[[:space:]]) ]]
            then
                command="$command ${COMP_WORDS[i]}"
            fi
            ;;
        esac
    done
    if [[ " ${_dibs_valued//$'\n'/ } " == *" $previous "* ]]; then
        _dibs_value "$previous" "$command" "$current"
        return
    fi
    case "$current" in
    -*) words="$(_dibs_options "$command") $_dibs_every" ;;
    *) words="$(_dibs_words "$command") $(_dibs_ids "$command")" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    case "$command" in
    "task import" | backup | init) [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default ;;
    esac
}

complete -F _dibs dibs
