/* SPDX-License-Identifier: MIT */
/*
 * fixture.h: a fresh store in a folder of its own, on a world of its own, for each test.
 *
 *     static void test_x(void **state)
 *     {
 *         struct fixture *f = *state;
 *         const char *id = make_task(f, "a");
 *         ...
 *     }
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {STORE_TEST(test_x)};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * After each test the store is verified (journal against tables) and thrown away.
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dibs.h"
#include "world.h"

struct fixture {
    char dir[64]; /* the test's folder; the store is in dir/.dibs */
    char data_dir[80];
    struct world world;
    dibs *d;
    dibs_arena *a; /* one for the whole test */
    struct dibs_error err;
    bool skip_verify; /* the test has damaged the store on purpose */
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* Opens one more handle on the same store and world (another process, as far as the store can
 * tell). */
dibs *fixture_open(struct fixture *f);
void fixture_reopen(struct fixture *f); /* closes f->d and opens it anew */

/* Expects DIBS_OK; the message is shown when it is not. */
#define assert_ok(f, call)                                                                         \
    do {                                                                                           \
        dibs_status status_ = (call);                                                              \
        if (status_ != DIBS_OK)                                                                    \
            fail_msg("%s: %s: %s", #call, dibs_status_name(status_), (f)->err.message);            \
    } while (0)
/* Expects this refusal, in the answer and in the error. */
#define assert_refused(f, expected, call)                                                          \
    do {                                                                                           \
        dibs_status status_ = (call);                                                              \
        if (status_ != (expected))                                                                 \
            fail_msg("%s: %s instead of %s: %s", #call, dibs_status_name(status_),                 \
                     dibs_status_name(expected), status_ == DIBS_OK ? "" : (f)->err.message);      \
        assert_int_equal((f)->err.code, (expected));                                               \
        assert_true((f)->err.message[0] != '\0');                                                  \
    } while (0)

/* The usual beginnings; each expects success. */
const char *make_session(struct fixture *f, const char *id); /* registered without a process */
/* An agent that may hold as much as any test likes; make_task_as makes those known that it
 * names. */
const char *know_agent(struct fixture *f, const char *id);
const char *make_task(struct fixture *f, const char *id); /* title = id, type "work" */
struct dibs_task make_task_as(struct fixture *f, struct dibs_task_new in);
struct dibs_claim claim(struct fixture *f, const char *task, const char *session);
struct dibs_task get_task(struct fixture *f, const char *id);
struct dibs_session get_session(struct fixture *f, const char *id);

/* Events of one type since the fixture began, oldest first (types NULL: all). */
struct dibs_event_list events_of(struct fixture *f, const char *type);
/* Value of a field in an event's data as text ("" when absent); numbers and booleans as JSON writes
 * them. */
const char *event_field(struct fixture *f, const struct dibs_event *e, const char *field);
/* Runs SQL on the data file by hand, with the sqlite library, to plant what the program itself
 * would never write. */
void plant(struct fixture *f, const char *sql);

#define MINUTES(n) ((int64_t)(n)*60 * 1000)
#define SECONDS(n) ((int64_t)(n)*1000)

#endif
