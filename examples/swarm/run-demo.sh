#!/bin/sh
# SPDX-License-Identifier: MIT
# run-demo.sh: a lead and two workers on this machine, for real.
#
# Starts a daemon in a folder of its own and three runners with small shell scripts as agents
# (lead.sh, worker.sh), hands them tasks, offers, messages and mentions, waits until all is done,
# and tells who did what. Exit 0 when each was done exactly once. Everything is gone afterwards.
#
#   PATH=$PWD/build:$PATH examples/swarm/run-demo.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
pids=""
unset DIBS_URL DIBS_SESSION DIBS_AGENT DIBS_PROJECT
export DIBS_DATA="$dir/.dibs" SWARM_NOTES="$dir/notes"

# shellcheck disable=SC2317,SC2086 # it is called by the trap; pids are words
clean_up() {
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
    wait
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# patiently COMMAND...: until it succeeds, for at most a minute
patiently() {
    tries=600
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || {
            echo "run-demo.sh: waited in vain: $*" >&2
            cat "$dir"/*.log "$SWARM_NOTES" >&2
            exit 1
        }
        sleep 0.1
    done
}

echo "== a daemon in $dir"
: >"$SWARM_NOTES"
dibs serve --init --listen 127.0.0.1:0 >"$dir/serve.log" 2>&1 &
pids="$!"
patiently test -S "$DIBS_DATA/dibs.sock"

echo "== a lead that does three things at once, two workers"
dibs agent register boss --lead --max 3
dibs agent register ann --max 2 --capability paint
dibs agent register bob

# What waits before anybody is there is handed out as soon as somebody is.
echo "== work for the pool, for one agent, and as an offer"
for i in 1 2 3 4 5 6; do
    dibs task add "sum $i" --id "pool-$i" --type sum --param a="$i" --param b="$i"
done
for i in 1 2; do
    dibs task add "sum for ann" --id "for-ann-$i" --assignee ann --param a="$i" --param b=10
done
dibs task add "paint the fence" --id fence --type paint --param a=1 --param b=2
dibs offer fence ann
dibs task add "paint the wall" --id wall --type paint --param a=3 --param b=4
dibs offer wall bob

echo "== messages for the lead, and mentions of it"
for i in 1 2 3; do
    dibs inbox add "how is it going?" --id "question-$i" --user "user-$i"
    dibs inbox add "please add this up" --id "wish-$i" --user "user-$i"
done
for channel in general random; do
    dibs channel create "$channel"
    for i in 1 2; do
        dibs channel post "$channel" "@boss look at $i" --as ann
    done
    dibs channel post "$channel" "nothing for @bosses here" --as bob
done

echo "== the swarm"
MAX_CONCURRENT_TASKS=3 dibs run --agent boss -- "$here/lead.sh" >"$dir/boss.log" 2>&1 &
pids="$pids $!"
dibs run --agent ann --max 2 -- "$here/worker.sh" >"$dir/ann.log" 2>&1 &
pids="$pids $!"
dibs run --agent bob -- "$here/worker.sh" >"$dir/bob.log" 2>&1 &
pids="$pids $!"
dibs task add "while they run" --id late --type sum --param a=7 --param b=8
dibs inbox add "still there?" --id question-late

# 14 tasks: 7 in the pool, 2 for ann, 2 offered, 3 that the lead makes of messages
is_done() {
    [ "$(dibs task list --quiet --status completed | wc -l)" -eq 14 ] &&
        [ -z "$(dibs inbox list --quiet --status unread)" ] &&
        [ -z "$(dibs inbox list --quiet --status processing)" ] &&
        [ "$(grep -c ' tasks_finished ' "$SWARM_NOTES")" -ge 14 ] &&
        [ "$(grep -c ' unread_mentions ' "$SWARM_NOTES")" -ge 6 ]
}
patiently is_done

echo "== what was done"
dibs agent list
dibs task list --all
dibs inbox list
echo "== how often, by agent and kind"
cut -d ' ' -f 1,2 "$SWARM_NOTES" | sort | uniq -c
# A rejected offer comes back as a task of the pool; beside that nothing may stand here twice.
twice=$(cut -d ' ' -f 2,3 "$SWARM_NOTES" | sort | uniq -d)
[ -z "${SWARM_KEEP:-}" ] || cp "$SWARM_NOTES" "$SWARM_KEEP"
if [ -n "$twice" ]; then
    echo "run-demo.sh: done more than once: $twice" >&2
    exit 1
fi
echo "== each exactly once"
