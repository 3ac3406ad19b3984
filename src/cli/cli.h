/* SPDX-License-Identifier: MIT */
/*
 * cli.h: one run of the command line.
 *
 * The room `cli` turns words into requests to the API and answers into text. It owns commands,
 * options, help and layout. It must never decide anything about a task: what may be claimed, by
 * whom and for how long is said by the answer. Start reading at cli.c (dispatch), then any cmd_*.c:
 * a table of commands and one function for each.
 */
#ifndef DIBS_CLI_H
#define DIBS_CLI_H

#include "client/client.h"
#include "must.h"
#include "options.h"
#include "output.h"

#define EXIT_USAGE 2
#define EXIT_BAD 1 /* doctor found something; output could not be written */
#define WORDS_ANY SIZE_MAX

struct cli;

struct command {
    const char *name; /* "task add"; NULL ends a table */
    const char *group;
    const char *usage; /* what stands behind the name: "TITLE [options]" */
    const char *summary;
    const char *details; /* further paragraphs of the help; NULL: none */
    const struct cli_option *options;
    size_t words_min, words_max;
    bool takes_program;
    int (*run)(struct cli *cli); /* returns the exit code */
};

struct cli {
    const struct command *command;
    struct args args;
    dibs_arena *arena; /* home of all that the command makes */
    struct output out;
    bool json, quiet;
    const char *project; /* --project or DIBS_PROJECT; NULL: none */

    struct client *client;       /* opened by the first request */
    struct client_answer answer; /* of the last request */
    int exit;                    /* of the last refusal */

    const char *session; /* see cli_session */
    bool session_is_automatic;
};

int cli_main(int argc, char **argv);

/* ---- refusals -------------------------------------------------------------------------------- */

/* Says what is wrong with the command line and returns EXIT_USAGE. */
int cli_usage(struct cli *cli, const char *format, ...) PRINTF_LIKE(2, 3);
/* Shows an error of the library and returns its exit code. */
int cli_error(struct cli *cli, const struct dibs_error *err);
/* Shows the refusal in cli->answer and returns its exit code. */
int cli_refusal(struct cli *cli);
/* A line on stderr, escaped, beginning with "dibs: ". */
void cli_complain(const char *format, ...) PRINTF_LIKE(1, 2);
/* A line for people on stderr, escaped; nothing with --quiet or --json. */
void cli_hint(const struct cli *cli, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---- requests -------------------------------------------------------------------------------- */

bool cli_open(struct cli *cli); /* false: refused and shown, cli->exit says how */
/* The same for commands that need the store in this process: client_store(). */
bool cli_open_store(struct cli *cli);
/* "defaultTTL=45m" for each setting on the command line. */
struct dibs_strings cli_settings(struct cli *cli);
/* The store's clock. */
int64_t cli_now(struct cli *cli);

/* Puts a request; the answer, also a refusal, is in cli->answer. False: it could not be asked. */
bool cli_call(struct cli *cli, const struct client_request *in);
/*
 * cli_ask: the answer when there is something left to show to people. NULL: everything is said (a
 * refusal, or --json printed the answer) and cli->exit is the exit code.
 */
json_t *cli_ask(struct cli *cli, const struct client_request *in);
/* Ends what cli_ask would have done, after cli_call. */
json_t *cli_show(struct cli *cli);
/* Prints JSON on one line. */
void cli_print_json(const json_t *value);

/* prefix + id, percent-encoded, + suffix */
const char *cli_path(struct cli *cli, const char *prefix, const char *id, const char *suffix);
/* A request body: the options of the command line that have a field. */
json_t *cli_body(struct cli *cli);
/* The query made of the options, and of the project when with_project. */
const char *cli_query(struct cli *cli, bool with_project);
/* The first word, which names a task. NULL, refused and shown, when it cannot be the id of one. */
const char *cli_task_id(struct cli *cli);
/* The same for other things: `route` is the word that means something else in their paths. */
const char *cli_id_beside(struct cli *cli, const char *route, dibs_status none, const char *kind);
/* The body with the options, and who asks. NULL: refused and shown. */
json_t *cli_session_body(struct cli *cli);

/* ---- who asks -------------------------------------------------------------------------------- */

/* --session, DIBS_SESSION, or the automatic one of this terminal. NULL: refused and shown. */
const char *cli_session(struct cli *cli);
/* As cli_ask, for a body with the session's id: an unknown session is registered and the request
 * repeated. */
json_t *cli_ask_as_session(struct cli *cli, const struct client_request *in);
/* Registers the session unless it is known and has not ended. False: refused and shown. */
bool cli_ensure_session(struct cli *cli);
/* --agent or DIBS_AGENT; NULL: none. A session that a command registers belongs to it. */
const char *cli_agent(const struct cli *cli);
const char *cli_need_agent(struct cli *cli); /* NULL: refused and shown */
/* Registers the session as one of the agent's, unless it belongs to some agent already. */
bool cli_ensure_agent_session(struct cli *cli);
/* Puts the process into the body of a registration, if there is one; behind a URL also the host on
 * which it runs, as the daemon would take it for one of its own. */
void cli_set_process(const struct cli *cli, json_t *body, int64_t pid);
/* The process whose end ends the automatic session; 0: none. */
int64_t cli_session_leader(void);

/* ---- reading answers ------------------------------------------------------------------------- */

const char *get_text(const json_t *object, const char *key); /* NULL when it is no text */
int64_t get_int(const json_t *object, const char *key);      /* 0 when it is no number */
/* An id as text: in one dialect a numeric id is a number. "?" when it is neither. */
const char *get_id(dibs_arena *a, const json_t *object, const char *key);
/* A JSON value as compact escaped text. */
const char *value_line(dibs_arena *a, const json_t *value);
/* A list of texts with commas between them, escaped; NULL when it is empty. */
const char *list_line(dibs_arena *a, const json_t *list);
enum colour status_colour(const char *status); /* of a task or a session */
enum colour health_colour(const char *health);
/* "label:  text" with the labels aligned; nothing when text is NULL. The text is escaped. */
void show_line(const struct cli *cli, const char *label, const char *text);

/* ---- tables ---------------------------------------------------------------------------------- */

extern const struct command store_commands[], task_commands[], import_commands[], claim_commands[],
    move_commands[], session_commands[], lock_commands[], key_commands[], overview_commands[],
    event_commands[], help_commands[], top_commands[], serve_commands[], run_commands[],
    agent_commands[], offer_commands[], poll_commands[], inbox_commands[], channel_commands[];
extern const struct command *const command_tables[]; /* all of them; ends with NULL */
extern const struct cli_option global_options[];
const struct cli_option *setting_options(void); /* one per setting of the library */

const struct command *command_find(const char *first, const char *second); /* NULL: none */
bool command_is_group(const char *word); /* "task": has commands of two words */
void help_command(const struct cli *cli, const struct command *command);
void help_group(const struct cli *cli, const char *word);
void help_all(FILE *to, const struct output *out);

/* Makes the store in `dir` unless there is one; *made tells which. False: refused and shown. */
bool store_make(struct cli *cli, const char *dir, bool *made);
/* Tables of /api/sessions and /api/tasks/in-flight; at most `rows` rows. */
void sessions_print(struct cli *cli, dibs_arena *a, const json_t *sessions, size_t rows);
void in_flight_print(struct cli *cli, dibs_arena *a, const json_t *list, size_t rows);

/* Tables of messages of an inbox, and of claimed mentions; ids only with --quiet. */
void messages_print(struct cli *cli, const json_t *messages);
void mentions_print(struct cli *cli, const json_t *answer);

/* Holds a lock while the program of the command line runs: lock_hold.c. */
int lock_hold(struct cli *cli);

#endif
