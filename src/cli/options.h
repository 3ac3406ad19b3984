/* SPDX-License-Identifier: MIT */
/*
 * options.h: what a command takes, as tables, and one reader for all of them.
 *
 * A row says how an option is written, what its value must look like, what it means, and under
 * which name it goes into the request. So the same row parses the option, fills in the JSON body or
 * the query, and prints the help.
 */
#ifndef DIBS_OPTIONS_H
#define DIBS_OPTIONS_H

#include "base/arena.h"
#include "base/base.h"
#include "base/json.h"

enum option_kind {
    OPTION_FLAG,     /* takes no value; true */
    OPTION_TEXT,     /* any text */
    OPTION_LIST,     /* may be given several times; one empty value: an empty list */
    OPTION_INT,      /* a whole number */
    OPTION_DURATION, /* 30m; a number of milliseconds in the request */
    OPTION_TIME,     /* ISO 8601, or +10m from now */
    OPTION_PRIORITY, /* 0..100 or a word */
    OPTION_JSON,     /* one JSON value */
    OPTION_VALUE,    /* one JSON value, or else text */
    OPTION_PAIR,     /* KEY=VALUE, several times: members of one object */
};

struct cli_option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* short form, 0: none */
    enum option_kind kind;
    const char *value; /* what the help calls the value */
    const char *field; /* its name in the request; NULL: it does not go there */
    const char *help;
    bool hidden; /* left out of help texts and completions */
};

/* A row: OPT("limit", 'n', INT, "N", "limit", "at most so many") */
#define OPT(text, short_form, type, value_word, request_field, help_text)                          \
    {                                                                                              \
        .name = text, .letter = short_form, .kind = OPTION_##type, .value = value_word,            \
        .field = request_field, .help = help_text                                                  \
    }

struct given {
    const struct cli_option *option;
    const char *text; /* "" for a flag */
};

/* A command line, read. Everything is borrowed from argv or lives in the arena. */
struct args {
    struct given *given;
    size_t given_count;
    const char **words; /* what is not an option */
    size_t word_count;
    char **program; /* what stands behind "--", for commands that run a program; NULL-terminated */
    size_t program_count;
};

struct args_input {
    /* tables in which an option is looked up, in this order; ends with NULL */
    const struct cli_option *const *tables;
    char **items;
    size_t count;
    bool takes_program; /* "--" separates a program to run, instead of only ending the options */
};
/* Refuses with DIBS_INVALID_REQUEST and a sentence that names the option, and the nearest one. */
dibs_status args_parse(dibs_arena *a, const struct args_input *in, struct args *out,
                       struct dibs_error *err) MUST_USE;

bool args_has(const struct args *args, const char *name);
const char *args_text(const struct args *args,
                      const char *name); /* the last one; NULL: not given */
int64_t args_int(const struct args *args, const char *name, int64_t otherwise);
int64_t args_duration_ms(const struct args *args, const char *name, int64_t otherwise);

/* Puts every given option that has a field into body / appends it to the query. now_ms is for
 * OPTION_TIME. */
void args_to_body(const struct args *args, int64_t now_ms, json_t *body);
void args_to_query(const struct args *args, struct buf *query);
/* Appends name=value to a query; nothing when value is NULL. */
void query_add(struct buf *query, const char *name, const char *value);

/* The option called `word` ("--name" or "-x", up to its "="); NULL: there is none. */
const struct cli_option *option_find(const struct cli_option *const *tables, const char *word);
/* How many letters must change to make a into b; swapped neighbours count once. */
size_t edit_distance(const char *a, const char *b);
/* Whether b is near enough to a mistyped a to be worth suggesting. */
bool edit_is_near(const char *a, const char *b);

#endif
