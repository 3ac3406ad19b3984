#!/bin/sh
# SPDX-License-Identifier: MIT
# lead.sh: what a lead does: it answers messages or makes tasks of them, reads where it is
# mentioned, and is told what the workers have finished. "dibs run" starts it for each, with the
# trigger as JSON on standard input; a dibs command in here acts as the same session.
set -eu

note() {
    echo "$DIBS_AGENT $DIBS_TRIGGER $1" >>"${SWARM_NOTES:-/dev/null}"
}

# ids NAME: of all objects on standard input that begin with that member; a real program would use
# a JSON parser
ids() {
    grep -o "{\"$1\":\"[^\"]*\"" | cut -d '"' -f 4
}

case $DIBS_TRIGGER in
slack_inbox_message)
    for id in $(ids id); do
        note "$id"
        if dibs inbox show "$id" | grep -q '^  message .*please'; then
            dibs inbox delegate "$id" --title "asked for by $id" --param a=100 --param b=1
        else
            dibs inbox respond "$id" "the swarm has been told"
        fi
    done
    ;;
unread_mentions)
    for channel in $(ids channelId); do
        # what is new to us; to read it ends the claim on the channel
        for post in $(dibs channel read "$channel" --json | ids id); do
            note "$channel/$post"
            dibs channel post "$channel" "seen" --reply-to "$post"
        done
    done
    ;;
tasks_finished)
    for id in $(ids id); do
        note "$id"
    done
    ;;
esac
