#!/bin/sh
# SPDX-License-Identifier: MIT
# worker.sh: what a worker does with one piece of work. "dibs run" starts it for each, with what it
# is about in DIBS_* variables and as JSON on standard input; a dibs command in here acts as the
# same session. Exit 0 is success, and what was printed becomes the task's result.
set -eu

# one line for each piece of work, so that the demo can count them
echo "$DIBS_AGENT $DIBS_TRIGGER $DIBS_TASK_ID" >>"${SWARM_NOTES:-/dev/null}"

if [ "$DIBS_TRIGGER" = task_offered ]; then
    # an offer wants a yes or a no; the work itself comes with the next poll, as task_assigned
    if [ "$DIBS_AGENT" = bob ] && [ "${DIBS_TYPE:-}" = paint ]; then
        dibs reject "$DIBS_TASK_ID" --reason "bob has no brush"
    else
        dibs accept "$DIBS_TASK_ID"
    fi
    exit
fi

# {"a":3,"b":4}
a=$(expr "$DIBS_PARAMS" : '.*"a":\([0-9]*\)') || a=0
b=$(expr "$DIBS_PARAMS" : '.*"b":\([0-9]*\)') || b=0
echo "50% adding $a and $b" >&3
echo "{\"sum\": $((a + b)), \"by\": \"$DIBS_AGENT\"}"
