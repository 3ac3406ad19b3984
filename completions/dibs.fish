# fish completion for dibs(1). Words and options are listed here, ids come from the store. The tests
# compare the lists with "dibs help --commands".

function __dibs_words
    # the words of the command line so far that are no options
    commandline -opc | tail -n +2 | string match -v -- '-*'
end

function __dibs_at
    # whether the command line so far begins with these words
    set -l words (__dibs_words)
    test (count $words) -ge (count $argv); or return 1
    for i in (seq (count $argv))
        test $words[$i] = $argv[$i]; or return 1
    end
end

function __dibs_none
    test (count (__dibs_words)) -eq 0
end

function __dibs_group
    set -l words (__dibs_words)
    test (count $words) -eq 1; and test $words[1] = $argv[1]
end

complete -c dibs -f

complete -c dibs -n __dibs_none -a init -d 'make a store in .dibs, here or in DIR'
complete -c dibs -n __dibs_none -a config -d 'the settings in force, and where they come from'
complete -c dibs -n __dibs_none -a doctor -d 'look the store over and say what to do'
complete -c dibs -n __dibs_none -a backup -d 'copy the store while others go on working'
complete -c dibs -n __dibs_none -a task -d 'add, list, show, edit, import'
complete -c dibs -n __dibs_none -a claim -d 'claim a task, or the next one'
complete -c dibs -n __dibs_none -a heartbeat -d 'renew the lease on a task, or on all you hold'
complete -c dibs -n __dibs_none -a progress -d 'note progress on a task; renews the lease'
complete -c dibs -n __dibs_none -a done -d 'report a task as completed'
complete -c dibs -n __dibs_none -a fail -d 'report that an attempt failed'
complete -c dibs -n __dibs_none -a release -d 'give a task back'
complete -c dibs -n __dibs_none -a block -d 'keep a task from being claimed'
complete -c dibs -n __dibs_none -a unblock -d 'take back a block'
complete -c dibs -n __dibs_none -a cancel -d 'cancel a task'
complete -c dibs -n __dibs_none -a reopen -d 'start a finished task again'
complete -c dibs -n __dibs_none -a offer -d 'offer a task to an agent'
complete -c dibs -n __dibs_none -a accept -d 'accept an offered task'
complete -c dibs -n __dibs_none -a reject -d 'turn down an offered task'
complete -c dibs -n __dibs_none -a assign -d 'assign a task to an agent, without asking'
complete -c dibs -n __dibs_none -a poll -d 'what an agent should do next, claimed for it'
complete -c dibs -n __dibs_none -a notices -d 'ack, release'
complete -c dibs -n __dibs_none -a agent -d 'register, list, show, scores'
complete -c dibs -n __dibs_none -a inbox -d 'add, list, show, claim, read, respond, delegate, release'
complete -c dibs -n __dibs_none -a channel -d 'create, list, post, messages, read'
complete -c dibs -n __dibs_none -a mentions -d 'claim, release'
complete -c dibs -n __dibs_none -a run -d 'run a command for each task that comes'
complete -c dibs -n __dibs_none -a session -d 'register, list, show, end, ...'
complete -c dibs -n __dibs_none -a lock -d 'hold a lock while a command runs'
complete -c dibs -n __dibs_none -a key -d 'add, list, revoke'
complete -c dibs -n __dibs_none -a in-flight -d 'all claimed tasks and who holds them'
complete -c dibs -n __dibs_none -a stats -d 'claims in numbers'
complete -c dibs -n __dibs_none -a scores -d 'what the journal says of each agent'
complete -c dibs -n __dibs_none -a cleanup -d 'free what expired or was orphaned, now'
complete -c dibs -n __dibs_none -a events -d 'what happened, from the journal'
complete -c dibs -n __dibs_none -a watch -d 'what happens, as it happens'
complete -c dibs -n __dibs_none -a top -d 'sessions and claims, live'
complete -c dibs -n __dibs_none -a serve -d 'the daemon: HTTP API, events, metrics'
complete -c dibs -n __dibs_none -a help -d 'explain a command'
complete -c dibs -n __dibs_none -a version -d 'print the version'
complete -c dibs -n '__dibs_group task' -a add -d 'add a task'
complete -c dibs -n '__dibs_group task' -a list -d 'list tasks, oldest first'
complete -c dibs -n '__dibs_group task' -a show -d 'show one task, or its history'
complete -c dibs -n '__dibs_group task' -a edit -d 'change a task'
complete -c dibs -n '__dibs_group task' -a import -d 'add many tasks from a file'
complete -c dibs -n '__dibs_group notices' -a ack -d 'a lead knows of these finished tasks'
complete -c dibs -n '__dibs_group notices' -a release -d 'let go of finished tasks: they are told again'
complete -c dibs -n '__dibs_group agent' -a register -d 'make an agent known, or change it'
complete -c dibs -n '__dibs_group agent' -a list -d 'list agents and what they are doing'
complete -c dibs -n '__dibs_group agent' -a show -d 'show one agent'
complete -c dibs -n '__dibs_group agent' -a scores -d 'what the journal says of each agent'
complete -c dibs -n '__dibs_group inbox' -a add -d 'put a message into an inbox'
complete -c dibs -n '__dibs_group inbox' -a list -d 'list messages, oldest first'
complete -c dibs -n '__dibs_group inbox' -a show -d 'show one message'
complete -c dibs -n '__dibs_group inbox' -a claim -d 'claim unread messages, oldest first'
complete -c dibs -n '__dibs_group inbox' -a read -d 'a message is read and needs no answer'
complete -c dibs -n '__dibs_group inbox' -a respond -d 'answer a message'
complete -c dibs -n '__dibs_group inbox' -a delegate -d 'make a message a task, or hand it to one'
complete -c dibs -n '__dibs_group inbox' -a release -d 'give a message back, unread'
complete -c dibs -n '__dibs_group channel' -a create -d 'make a channel, or find it'
complete -c dibs -n '__dibs_group channel' -a list -d 'list channels'
complete -c dibs -n '__dibs_group channel' -a post -d 'post a message in a channel'
complete -c dibs -n '__dibs_group channel' -a messages -d 'what was posted, oldest first'
complete -c dibs -n '__dibs_group channel' -a read -d 'what an agent has not read yet, which then is read'
complete -c dibs -n '__dibs_group mentions' -a claim -d 'claim the channels in which an agent is mentioned'
complete -c dibs -n '__dibs_group mentions' -a release -d 'let go of claimed mentions'
complete -c dibs -n '__dibs_group session' -a register -d 'register a session, or its next incarnation'
complete -c dibs -n '__dibs_group session' -a list -d 'list sessions'
complete -c dibs -n '__dibs_group session' -a show -d 'show a session and its last claims'
complete -c dibs -n '__dibs_group session' -a heartbeat -d 'renew a session and all it holds'
complete -c dibs -n '__dibs_group session' -a resume -d 'claim again what it lost and nobody took'
complete -c dibs -n '__dibs_group session' -a end -d 'end a session and release what it holds'
complete -c dibs -n '__dibs_group session' -a summary -d 'all sessions at a glance'
complete -c dibs -n '__dibs_group lock' -a take -d 'take a lock and keep it'
complete -c dibs -n '__dibs_group lock' -a heartbeat -d 'renew a lock'
complete -c dibs -n '__dibs_group lock' -a release -d 'release a lock'
complete -c dibs -n '__dibs_group lock' -a list -d 'list locks'
complete -c dibs -n '__dibs_group key' -a add -d 'make an API key and print it, once'
complete -c dibs -n '__dibs_group key' -a list -d 'list API keys, without their secrets'
complete -c dibs -n '__dibs_group key' -a revoke -d 'revoke an API key, for good'

# options of every command
complete -c dibs -l data -r -a '(__fish_complete_directories)' -d 'the data folder (else DIBS_DATA, else .dibs here or above)'
complete -c dibs -l url -x -d 'a daemon elsewhere (else DIBS_URL); its key: DIBS_API_KEY'
complete -c dibs -l session -x -a '(dibs session list --quiet 2>/dev/null)' -d 'who asks (else DIBS_SESSION, else one that ends with the terminal)'
complete -c dibs -l project -x -d 'the project (else DIBS_PROJECT)'
complete -c dibs -l json -d 'print the answer as JSON, also when it is a refusal'
complete -c dibs -s q -l quiet -d 'print ids only, and no hints'
complete -c dibs -l no-color -d 'no colours, as with NO_COLOR'
complete -c dibs -s h -l help -d 'explain the command'
complete -c dibs -l default-ttl -x -d 'setting'
complete -c dibs -l min-ttl -x -d 'setting'
complete -c dibs -l max-ttl -x -d 'setting'
complete -c dibs -l heartbeat-interval -x -d 'setting'
complete -c dibs -l cleanup-interval -x -d 'setting'
complete -c dibs -l lock-ttl -x -d 'setting'
complete -c dibs -l orphan-threshold -x -d 'setting'
complete -c dibs -l warning-threshold -x -d 'setting'
complete -c dibs -l expiring-threshold -x -d 'setting'
complete -c dibs -l stale-threshold -x -d 'setting'
complete -c dibs -l event-retention -x -d 'setting'
complete -c dibs -l offer-ttl -x -d 'setting'
complete -c dibs -l auto-cleanup -x -d 'setting'

# dibs init
complete -c dibs -n '__dibs_at init' -F

# dibs doctor
complete -c dibs -n '__dibs_at doctor' -l deep -d 'read every page and compare the journal with the tables'

# dibs backup
complete -c dibs -n '__dibs_at backup' -F

# dibs task add
complete -c dibs -n '__dibs_at task add' -l id -x -d 'its id; otherwise the next number'
complete -c dibs -n '__dibs_at task add' -l description -x -d 'what is to be done, at length'
complete -c dibs -n '__dibs_at task add' -l type -x -d 'kind of work; claim --type asks for it'
complete -c dibs -n '__dibs_at task add' -l phase -x -d 'phase of the project'
complete -c dibs -n '__dibs_at task add' -s p -l priority -x -a 'critical high medium low' -d '0 to 100, or critical, high, medium, low; larger is sooner'
complete -c dibs -n '__dibs_at task add' -s t -l tag -x -d 'a tag; may be given several times'
complete -c dibs -n '__dibs_at task add' -l param -x -d 'what the worker needs; VALUE is JSON if it can be read so, else text'
complete -c dibs -n '__dibs_at task add' -l params -x -d 'all params at once'
complete -c dibs -n '__dibs_at task add' -l metadata -x -d 'whatever you like'
complete -c dibs -n '__dibs_at task add' -l depends-on -x -a '(dibs task list --quiet 2>/dev/null)' -d 'a task that must be completed first; may be given several times'
complete -c dibs -n '__dibs_at task add' -l run-after -x -d 'not to be claimed before: 2030-01-31T12:00:00Z, or +10m'
complete -c dibs -n '__dibs_at task add' -l max-attempts -x -d 'claims after which it counts as failed; 0: no limit'
complete -c dibs -n '__dibs_at task add' -l claim-timeout -x -d 'lease of a claim that names none'
complete -c dibs -n '__dibs_at task add' -l assignee -x -d 'assigned to this agent from the start'
complete -c dibs -n '__dibs_at task add' -l dedupe-key -x -d 'while an unfinished task has this key, that one is meant'
complete -c dibs -n '__dibs_at task add' -l idempotency-key -x -d 'a repeat with the same key answers as the first time'

# dibs task list
complete -c dibs -n '__dibs_at task list' -l status -x -a 'open offered reviewing assigned in_progress blocked completed failed cancelled' -d 'only these; unfinished ones if not given'
complete -c dibs -n '__dibs_at task list' -s a -l all -d 'finished ones too'
complete -c dibs -n '__dibs_at task list' -l type -x -d 'only of this type'
complete -c dibs -n '__dibs_at task list' -l phase -x -d 'only of this phase'
complete -c dibs -n '__dibs_at task list' -s t -l tag -x -d 'only with this tag'
complete -c dibs -n '__dibs_at task list' -l assignee -x -d 'only assigned to this agent'
complete -c dibs -n '__dibs_at task list' -l session -x -a '(dibs session list --quiet 2>/dev/null)' -d 'only held by this session'
complete -c dibs -n '__dibs_at task list' -s n -l limit -x -d 'at most so many, 100 if not given'
complete -c dibs -n '__dibs_at task list' -l cursor -x -d 'go on where the page before ended'

# dibs task show
complete -c dibs -n '__dibs_at task show' -l history -d 'everything that happened to it, and its attempts'
complete -c dibs -n '__dibs_at task show' -a '(dibs task list --quiet --all 2>/dev/null)'

# dibs task edit
complete -c dibs -n '__dibs_at task edit' -l title -x -d 'what is to be done, in one line'
complete -c dibs -n '__dibs_at task edit' -l description -x -d 'what is to be done, at length'
complete -c dibs -n '__dibs_at task edit' -l type -x -d 'kind of work; claim --type asks for it'
complete -c dibs -n '__dibs_at task edit' -l phase -x -d 'phase of the project'
complete -c dibs -n '__dibs_at task edit' -s p -l priority -x -a 'critical high medium low' -d '0 to 100, or critical, high, medium, low; larger is sooner'
complete -c dibs -n '__dibs_at task edit' -s t -l tag -x -d 'a tag; may be given several times'
complete -c dibs -n '__dibs_at task edit' -l param -x -d 'what the worker needs; VALUE is JSON if it can be read so, else text'
complete -c dibs -n '__dibs_at task edit' -l params -x -d 'all params at once'
complete -c dibs -n '__dibs_at task edit' -l metadata -x -d 'whatever you like'
complete -c dibs -n '__dibs_at task edit' -l depends-on -x -a '(dibs task list --quiet 2>/dev/null)' -d 'a task that must be completed first; may be given several times'
complete -c dibs -n '__dibs_at task edit' -l run-after -x -d 'not to be claimed before: 2030-01-31T12:00:00Z, or +10m'
complete -c dibs -n '__dibs_at task edit' -l max-attempts -x -d 'claims after which it counts as failed; 0: no limit'
complete -c dibs -n '__dibs_at task edit' -l claim-timeout -x -d 'lease of a claim that names none'
complete -c dibs -n '__dibs_at task edit' -l version -x -d 'refuse unless it still has this version'
complete -c dibs -n '__dibs_at task edit' -a '(dibs task list --quiet --all 2>/dev/null)'

# dibs task import
complete -c dibs -n '__dibs_at task import' -l skip-existing -d 'leave out tasks whose id is there already'
complete -c dibs -n '__dibs_at task import' -F

# dibs claim
complete -c dibs -n '__dibs_at claim' -l next -d 'the best claimable task; the same as naming none'
complete -c dibs -n '__dibs_at claim' -l ttl -x -d 'how long the lease runs without a heartbeat'
complete -c dibs -n '__dibs_at claim' -l type -x -d 'next: only of this type; several times for more'
complete -c dibs -n '__dibs_at claim' -s t -l tag -x -d 'next: only with this tag; several times: with all'
complete -c dibs -n '__dibs_at claim' -s w -l wait -x -d 'next: wait so long for a task to appear'
complete -c dibs -n '__dibs_at claim' -s n -l count -x -d 'next: claim up to so many'
complete -c dibs -n '__dibs_at claim' -l sort -x -a 'priority created_at random' -d 'next: priority (standard), created_at or random'
complete -c dibs -n '__dibs_at claim' -l order -x -a 'asc desc' -d 'next: the direction of --sort'
complete -c dibs -n '__dibs_at claim' -l max-attempts-remaining -x -d 'next: only with attempts < max attempts - N'
complete -c dibs -n '__dibs_at claim' -l agent-type -x -d 'what kind of worker you are, if not registered yet'
complete -c dibs -n '__dibs_at claim' -l pid -x -d 'process whose end ends the session, if not registered yet'
complete -c dibs -n '__dibs_at claim' -l idempotency-key -x -d 'a repeat with the same key answers as the first time'
complete -c dibs -n '__dibs_at claim' -a '(dibs task list --quiet --status open,assigned 2>/dev/null)'

# dibs heartbeat
complete -c dibs -n '__dibs_at heartbeat' -l extend -x -d 'new lease from now on, instead of the old one\'s'
complete -c dibs -n '__dibs_at heartbeat' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at heartbeat' -a '(dibs task list --quiet --status in_progress 2>/dev/null)'

# dibs progress
complete -c dibs -n '__dibs_at progress' -l percent -x -d 'how far, 0 to 100'
complete -c dibs -n '__dibs_at progress' -s m -l message -x -d 'what is being done'
complete -c dibs -n '__dibs_at progress' -l checkpoint -x -d 'given to the next attempt if this one does not finish'
complete -c dibs -n '__dibs_at progress' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at progress' -a '(dibs task list --quiet --status in_progress 2>/dev/null)'

# dibs done
complete -c dibs -n '__dibs_at done' -l result -x -d 'what came out; JSON if it can be read so, else text'
complete -c dibs -n '__dibs_at done' -l next -d 'and claim the next task in the same step'
complete -c dibs -n '__dibs_at done' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at done' -a '(dibs task list --quiet --status in_progress 2>/dev/null)'

# dibs fail
complete -c dibs -n '__dibs_at fail' -s m -l error -x -d 'what went wrong'
complete -c dibs -n '__dibs_at fail' -l permanent -d 'no further attempt'
complete -c dibs -n '__dibs_at fail' -l next -d 'and claim the next task in the same step'
complete -c dibs -n '__dibs_at fail' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at fail' -a '(dibs task list --quiet --status in_progress 2>/dev/null)'

# dibs release
complete -c dibs -n '__dibs_at release' -s m -l reason -x -d 'why it is given back'
complete -c dibs -n '__dibs_at release' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at release' -a '(dibs task list --quiet --status in_progress 2>/dev/null)'

# dibs block
complete -c dibs -n '__dibs_at block' -s m -l reason -x -d 'why; shown in the history'
complete -c dibs -n '__dibs_at block' -a '(dibs task list --quiet 2>/dev/null)'

# dibs unblock
complete -c dibs -n '__dibs_at unblock' -a '(dibs task list --quiet --status blocked 2>/dev/null)'

# dibs cancel
complete -c dibs -n '__dibs_at cancel' -s m -l reason -x -d 'why; shown in the history'
complete -c dibs -n '__dibs_at cancel' -a '(dibs task list --quiet 2>/dev/null)'

# dibs reopen
complete -c dibs -n '__dibs_at reopen' -s m -l reason -x -d 'why; shown in the history'
complete -c dibs -n '__dibs_at reopen' -a '(dibs task list --quiet --status completed,failed,cancelled 2>/dev/null)'

# dibs offer
complete -c dibs -n '__dibs_at offer' -a '(dibs task list --quiet 2>/dev/null)'
complete -c dibs -n '__dibs_at offer' -a '(dibs agent list --quiet 2>/dev/null)'

# dibs accept
complete -c dibs -n '__dibs_at accept' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'whom it is offered to (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at accept' -a '(dibs task list --quiet 2>/dev/null)'

# dibs reject
complete -c dibs -n '__dibs_at reject' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'whom it is offered to (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at reject' -s m -l reason -x -d 'why not; shown to whoever offers it next'
complete -c dibs -n '__dibs_at reject' -a '(dibs task list --quiet 2>/dev/null)'

# dibs assign
complete -c dibs -n '__dibs_at assign' -a '(dibs task list --quiet 2>/dev/null)'
complete -c dibs -n '__dibs_at assign' -a '(dibs agent list --quiet 2>/dev/null)'

# dibs poll
complete -c dibs -n '__dibs_at poll' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'who asks (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at poll' -s w -l wait -x -d 'wait so long for something to happen'
complete -c dibs -n '__dibs_at poll' -l claim -d 'workers: take a task from the pool'
complete -c dibs -n '__dibs_at poll' -l type -x -d 'with --claim: only of this type; several times for more'
complete -c dibs -n '__dibs_at poll' -l ack -x -a 'manual auto' -d 'finished tasks count as told when acknowledged, or now'
complete -c dibs -n '__dibs_at poll' -l ttl -x -d 'how long the lease runs without a heartbeat'
complete -c dibs -n '__dibs_at poll' -l pid -x -d 'process whose end ends the session, if not registered yet'

# dibs agent register
complete -c dibs -n '__dibs_at agent register' -l id -x -d 'its id; otherwise the name'
complete -c dibs -n '__dibs_at agent register' -l lead -d 'a lead: gets messages, mentions and finished tasks'
complete -c dibs -n '__dibs_at agent register' -l worker -d 'a worker: gets tasks; what a new agent is'
complete -c dibs -n '__dibs_at agent register' -l max -x -d 'so many tasks at once; 1 if not given'
complete -c dibs -n '__dibs_at agent register' -l capability -x -d 'what it can do; may be given several times'
complete -c dibs -n '__dibs_at agent register' -l metadata -x -d 'whatever you like'

# dibs agent list
complete -c dibs -n '__dibs_at agent list' -l leads -d 'only leads'
complete -c dibs -n '__dibs_at agent list' -l workers -d 'only workers'

# dibs agent show
complete -c dibs -n '__dibs_at agent show' -a '(dibs agent list --quiet 2>/dev/null)'

# dibs inbox add
complete -c dibs -n '__dibs_at inbox add' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'for this agent; otherwise for any lead'
complete -c dibs -n '__dibs_at inbox add' -l source -x -d 'where it comes from; \'api\' if not given'
complete -c dibs -n '__dibs_at inbox add' -l channel -x -d 'the channel there'
complete -c dibs -n '__dibs_at inbox add' -l thread -x -d 'the thread there'
complete -c dibs -n '__dibs_at inbox add' -l user -x -d 'who wrote it'
complete -c dibs -n '__dibs_at inbox add' -l matched -x -d 'what in it was meant for us'
complete -c dibs -n '__dibs_at inbox add' -l metadata -x -d 'whatever you like'
complete -c dibs -n '__dibs_at inbox add' -l id -x -d 'its id; otherwise the next number'
complete -c dibs -n '__dibs_at inbox add' -l idempotency-key -x -d 'a repeat with the same key answers as the first time'

# dibs inbox list
complete -c dibs -n '__dibs_at inbox list' -l status -x -a 'unread processing read responded delegated' -d 'only these: unread, processing, read, responded or delegated'
complete -c dibs -n '__dibs_at inbox list' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'only for this agent'
complete -c dibs -n '__dibs_at inbox list' -l source -x -d 'only from there'
complete -c dibs -n '__dibs_at inbox list' -s n -l limit -x -d 'at most so many, 100 if not given'
complete -c dibs -n '__dibs_at inbox list' -l cursor -x -d 'go on where the page before ended'

# dibs inbox show
complete -c dibs -n '__dibs_at inbox show' -a '(dibs inbox list --quiet 2>/dev/null)'

# dibs inbox claim
complete -c dibs -n '__dibs_at inbox claim' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'whose messages (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at inbox claim' -s n -l count -x -d 'up to so many, oldest first; 5 if not given'
complete -c dibs -n '__dibs_at inbox claim' -l ttl -x -d 'how long the lease runs without a heartbeat'

# dibs inbox read
complete -c dibs -n '__dibs_at inbox read' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at inbox read' -a '(dibs inbox list --quiet 2>/dev/null)'

# dibs inbox respond
complete -c dibs -n '__dibs_at inbox respond' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at inbox respond' -a '(dibs inbox list --quiet 2>/dev/null)'

# dibs inbox delegate
complete -c dibs -n '__dibs_at inbox delegate' -l task -x -a '(dibs task list --quiet 2>/dev/null)' -d 'to this task, which exists'
complete -c dibs -n '__dibs_at inbox delegate' -l title -x -d 'to a new task with this title'
complete -c dibs -n '__dibs_at inbox delegate' -l description -x -d 'new task: what is to be done, at length'
complete -c dibs -n '__dibs_at inbox delegate' -l type -x -d 'new task: kind of work'
complete -c dibs -n '__dibs_at inbox delegate' -s p -l priority -x -a 'critical high medium low' -d 'new task: 0 to 100, or a word'
complete -c dibs -n '__dibs_at inbox delegate' -s t -l tag -x -d 'new task: a tag; may be given several times'
complete -c dibs -n '__dibs_at inbox delegate' -l param -x -d 'new task: what the worker needs'
complete -c dibs -n '__dibs_at inbox delegate' -l assignee -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'new task: assigned to this agent'
complete -c dibs -n '__dibs_at inbox delegate' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at inbox delegate' -a '(dibs inbox list --quiet 2>/dev/null)'

# dibs inbox release
complete -c dibs -n '__dibs_at inbox release' -l token -x -d 'refuse unless this is still the token of the claim'
complete -c dibs -n '__dibs_at inbox release' -a '(dibs inbox list --quiet 2>/dev/null)'

# dibs channel create
complete -c dibs -n '__dibs_at channel create' -l description -x -d 'what it is for'

# dibs channel post
complete -c dibs -n '__dibs_at channel post' -l as -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'who writes (else DIBS_AGENT, else the session)'
complete -c dibs -n '__dibs_at channel post' -l reply-to -x -d 'the message that it answers'
complete -c dibs -n '__dibs_at channel post' -l idempotency-key -x -d 'a repeat with the same key answers as the first time'
complete -c dibs -n '__dibs_at channel post' -a '(dibs channel list --quiet 2>/dev/null)'

# dibs channel messages
complete -c dibs -n '__dibs_at channel messages' -s n -l limit -x -d 'at most so many, 100 if not given'
complete -c dibs -n '__dibs_at channel messages' -l cursor -x -d 'go on where the page before ended'
complete -c dibs -n '__dibs_at channel messages' -a '(dibs channel list --quiet 2>/dev/null)'

# dibs channel read
complete -c dibs -n '__dibs_at channel read' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'who reads (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at channel read' -s n -l limit -x -d 'at most so many, 100 if not given'
complete -c dibs -n '__dibs_at channel read' -a '(dibs channel list --quiet 2>/dev/null)'

# dibs mentions claim
complete -c dibs -n '__dibs_at mentions claim' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'whose mentions (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at mentions claim' -l ttl -x -d 'how long the lease runs without a heartbeat'

# dibs mentions release
complete -c dibs -n '__dibs_at mentions release' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'whose mentions (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at mentions release' -l read -d 'what was there when they were claimed counts as read'
complete -c dibs -n '__dibs_at mentions release' -a '(dibs channel list --quiet 2>/dev/null)'

# dibs run
complete -c dibs -n '__dibs_at run' -l agent -x -a '(dibs agent list --quiet 2>/dev/null)' -d 'poll as this agent: offers, assigned tasks, messages and mentions too (else DIBS_AGENT)'
complete -c dibs -n '__dibs_at run' -l type -x -d 'from the pool only tasks of this type; several times for more'
complete -c dibs -n '__dibs_at run' -s n -l max -x -d 'so many at once (else MAX_CONCURRENT_TASKS, else 1)'
complete -c dibs -n '__dibs_at run' -l ttl -x -d 'lease of the claims; renewed while CMD runs'
complete -c dibs -n '__dibs_at run' -l time-limit -x -d 'stop CMD after so long; the attempt fails'
complete -c dibs -n '__dibs_at run' -l grace -x -d 'between SIGTERM and SIGKILL when CMD is stopped (10s)'
complete -c dibs -n '__dibs_at run' -l prompt -r -F -d 'fill this template; CMD reads it instead of JSON, or has it as argument {{prompt}}'
complete -c dibs -n '__dibs_at run' -l log-dir -r -a '(__fish_complete_directories)' -d 'where the output goes (logs in the data folder)'
complete -c dibs -n '__dibs_at run' -l once -d 'wait for one task, run it, end'
complete -c dibs -n '__dibs_at run' -l drain-when-empty -d 'end when there is nothing to claim'
complete -c dibs -n '__dibs_at run' -l shell -d 'CMD is one line for /bin/sh -c'

# dibs session register
complete -c dibs -n '__dibs_at session register' -l agent-type -x -d 'what kind of worker it is'
complete -c dibs -n '__dibs_at session register' -l agent-id -x -d 'the agent that it belongs to'
complete -c dibs -n '__dibs_at session register' -l pid -x -d 'process whose end ends the session, such as $$'
complete -c dibs -n '__dibs_at session register' -l host -x -d 'where it runs, if not here'
complete -c dibs -n '__dibs_at session register' -l metadata -x -d 'whatever you like'
complete -c dibs -n '__dibs_at session register' -a '(dibs session list --quiet 2>/dev/null)'

# dibs session list
complete -c dibs -n '__dibs_at session list' -s a -l all -d 'ended ones too'
complete -c dibs -n '__dibs_at session list' -s n -l limit -x -d 'at most so many, 100 if not given'
complete -c dibs -n '__dibs_at session list' -l cursor -x -d 'go on where the page before ended'

# dibs session show
complete -c dibs -n '__dibs_at session show' -a '(dibs session list --quiet 2>/dev/null)'

# dibs session heartbeat
complete -c dibs -n '__dibs_at session heartbeat' -a '(dibs session list --quiet 2>/dev/null)'

# dibs session resume
complete -c dibs -n '__dibs_at session resume' -a '(dibs session list --quiet 2>/dev/null)'

# dibs session end
complete -c dibs -n '__dibs_at session end' -a '(dibs session list --quiet 2>/dev/null)'

# dibs lock
complete -c dibs -n '__dibs_at lock' -l shared -d 'share it with other shared holders'
complete -c dibs -n '__dibs_at lock' -l ttl -x -d 'how long it is held without a heartbeat'
complete -c dibs -n '__dibs_at lock' -s w -l wait -x -d 'wait so long, in the order of arrival'

# dibs lock take
complete -c dibs -n '__dibs_at lock take' -l shared -d 'share it with other shared holders'
complete -c dibs -n '__dibs_at lock take' -l ttl -x -d 'how long it is held without a heartbeat'
complete -c dibs -n '__dibs_at lock take' -s w -l wait -x -d 'wait so long, in the order of arrival'
complete -c dibs -n '__dibs_at lock take' -l pid -x -d 'process whose end ends the session, if not registered yet'

# dibs lock heartbeat
complete -c dibs -n '__dibs_at lock heartbeat' -l extend -x -d 'new lease from now on, instead of the old one\'s'
complete -c dibs -n '__dibs_at lock heartbeat' -l token -x -d 'refuse unless this is still the token of the lock'
complete -c dibs -n '__dibs_at lock heartbeat' -a '(dibs lock list --quiet 2>/dev/null)'

# dibs lock release
complete -c dibs -n '__dibs_at lock release' -l token -x -d 'refuse unless this is still the token of the lock'
complete -c dibs -n '__dibs_at lock release' -a '(dibs lock list --quiet 2>/dev/null)'

# dibs lock list
complete -c dibs -n '__dibs_at lock list' -l resource -x -d 'only this one'
complete -c dibs -n '__dibs_at lock list' -l session -x -a '(dibs session list --quiet 2>/dev/null)' -d 'only held by this session'

# dibs key add
complete -c dibs -n '__dibs_at key add' -l role -x -a 'read worker admin' -d 'read, worker or admin'
complete -c dibs -n '__dibs_at key add' -l rate -x -d 'requests per minute; 0: no limit, 100 if not given'

# dibs key list
complete -c dibs -n '__dibs_at key list' -s a -l all -d 'also those that were revoked'

# dibs key revoke
complete -c dibs -n '__dibs_at key revoke' -a '(dibs key list --quiet 2>/dev/null)'

# dibs in-flight
complete -c dibs -n '__dibs_at in-flight' -l session -x -a '(dibs session list --quiet 2>/dev/null)' -d 'only held by this session'
complete -c dibs -n '__dibs_at in-flight' -l include-expired -d 'also claims whose deadline is past and that no sweep has ended yet'
complete -c dibs -n '__dibs_at in-flight' -s n -l limit -x -d 'at most so many, 100 if not given'

# dibs cleanup
complete -c dibs -n '__dibs_at cleanup' -l type -x -a 'expired orphaned locks sessions events session' -d 'only this: expired, orphaned, locks, sessions, events, session'
complete -c dibs -n '__dibs_at cleanup' -l no-process-check -d 'orphaned: go by heartbeats alone, do not look at processes'
complete -c dibs -n '__dibs_at cleanup' -l session -x -a '(dibs session list --quiet 2>/dev/null)' -d 'session: release what this session holds'
complete -c dibs -n '__dibs_at cleanup' -s m -l reason -x -d 'session: why'

# dibs events
complete -c dibs -n '__dibs_at events' -s f -l follow -d 'go on with what happens from now on'
complete -c dibs -n '__dibs_at events' -l since -x -d 'from behind this number on; the last ones if not given'
complete -c dibs -n '__dibs_at events' -l types -x -d 'only of these types'
complete -c dibs -n '__dibs_at events' -l task -x -a '(dibs task list --quiet 2>/dev/null)' -d 'only of this task'
complete -c dibs -n '__dibs_at events' -l summary -d 'without the single claims of a sweep'
complete -c dibs -n '__dibs_at events' -s n -l limit -x -d 'at most so many; 50 if not given'

# dibs watch
complete -c dibs -n '__dibs_at watch' -l since -x -d 'begin behind this number instead of now'
complete -c dibs -n '__dibs_at watch' -l types -x -d 'only of these types'
complete -c dibs -n '__dibs_at watch' -l task -x -a '(dibs task list --quiet 2>/dev/null)' -d 'only of this task'
complete -c dibs -n '__dibs_at watch' -l summary -d 'without the single claims of a sweep'

# dibs top
complete -c dibs -n '__dibs_at top' -l once -d 'one picture, then end'
complete -c dibs -n '__dibs_at top' -l interval -x -d 'between two pictures; 1s, or 2s with a URL'

# dibs serve
complete -c dibs -n '__dibs_at serve' -s l -l listen -x -d 'where: PORT, ADDR:PORT, [ADDR]:PORT or unix:PATH'
complete -c dibs -n '__dibs_at serve' -l host -x -d 'a name by which others reach it'
complete -c dibs -n '__dibs_at serve' -l max-connections -x -d 'at most so many at once'
complete -c dibs -n '__dibs_at serve' -l idle-timeout -x -d 'hang up on a connection that has asked nothing for so long (75s)'
complete -c dibs -n '__dibs_at serve' -l request-timeout -x -d 'hang up on a request that has not come in whole by then (10s)'
complete -c dibs -n '__dibs_at serve' -l log-requests -d 'one line of JSON for each request'
complete -c dibs -n '__dibs_at serve' -l init -d 'make the data folder if there is none'
