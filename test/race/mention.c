/* SPDX-License-Identifier: MIT */
/*
 * mention.c: one agent, many processes of it, all of them posting, claiming and reading at once.
 * Each mention reaches exactly one reader, and no two are at the same channel.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers.h"

#define TALKERS 8
#define CHANNELS 4

struct talk {
    int rounds;               /* of each worker */
    volatile int64_t *inside; /* how many sessions are at each channel's mentions now */
    volatile int64_t *seen;   /* how often each message was read, by its number */
};

static void open_as_bob(struct worker *w)
{
    struct dibs_session out = {0};
    struct dibs_session_new in = {.id = w->id, .agent_id = "bob"};
    worker_open(w);
    must(w, dibs_session_register(w->d, w->a, &in, &out, &w->err));
}

static void name_of(int channel, char out[16])
{
    snprintf(out, 16, "c%d", channel);
}

static void make_channels(struct worker *w)
{
    for (int i = 0; i < CHANNELS; i++) {
        char id[16];
        struct dibs_channel out = {0};
        struct dibs_channel_new in = {.id = id};
        name_of(i, id);
        must(w, dibs_channel_create(w->d, w->a, &in, &out, &w->err));
    }
}

static void say(struct worker *w)
{
    char id[16];
    struct dibs_post out = {0};
    struct dibs_post_new in = {.channel_id = id, .author = w->id, .content = "look, @bob."};
    name_of((int)(chance(&w->seed) % CHANNELS), id);
    must(w, dibs_channel_post(w->d, w->a, &in, &out, &w->err));
    check(w, out.mentions.count == 1);
}

static void read_all(struct worker *w, const struct talk *t, const char *channel)
{
    struct dibs_post_list out = {0};
    struct dibs_channel_read in = {
        .channel_id = channel, .agent_id = "bob", .session_id = w->id, .limit = 1000};
    must(w, dibs_channel_read(w->d, w->a, &in, &out, &w->err));
    check(w, out.count > 0);
    for (size_t i = 0; i < out.count; i++) {
        long number = strtol(out.items[i].id, NULL, 10);
        check(w, __atomic_add_fetch(&t->seen[number], 1, __ATOMIC_SEQ_CST) == 1);
    }
}

static void give_back(struct worker *w, const char *channel)
{
    int64_t released = 0;
    struct dibs_strings ids = {.items = &channel, .count = 1};
    struct dibs_mentions_release in = {.agent_id = "bob", .session_id = w->id, .channel_ids = &ids};
    must(w, dibs_mentions_release(w->d, w->a, &in, &released, &w->err));
    check(w, released == 1);
}

/* Claims what there is, and reads it or, sometimes, gives it back; false: there was nothing. */
static bool see_to_mentions(struct worker *w, const struct talk *t, bool may_give_back)
{
    struct dibs_mentions_list got = {0};
    struct dibs_mentions_claim in = {.agent_id = "bob", .session_id = w->id};
    dibs_status status = dibs_mentions_claim(w->d, w->a, &in, &got, &w->err);
    if (status == DIBS_NOTHING_TO_CLAIM)
        return false;
    must(w, status);
    for (size_t i = 0; i < got.count; i++) {
        volatile int64_t *inside = &t->inside[got.items[i].channel_id[1] - '0'];
        check(w, __atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST) == 1);
    }
    for (size_t i = 0; i < got.count; i++) {
        const char *channel = got.items[i].channel_id;
        __atomic_sub_fetch(&t->inside[channel[1] - '0'], 1, __ATOMIC_SEQ_CST);
        if (may_give_back && chance(&w->seed) % 3 == 0)
            give_back(w, channel);
        else
            read_all(w, t, channel);
    }
    return true;
}

static void talk(struct worker *w)
{
    const struct talk *t = w->context;
    open_as_bob(w);
    make_channels(w); /* all do: who comes second finds them */
    crew_barrier(w);
    for (int i = 0; i < t->rounds; i++) {
        say(w);
        see_to_mentions(w, t, true);
        dibs_arena_reset(w->a);
    }
}

static void finish(struct worker *w)
{
    open_as_bob(w);
    while (see_to_mentions(w, w->context, false))
        continue;
}

static void run(struct place *p, int count, void (*job)(struct worker *w), struct talk *t)
{
    struct crew *c = crew_start(p, count, job, t);
    crew_wait(c);
    crew_free(c);
}

static void test_each_mention_reaches_one_of_many_sessions(void **state)
{
    struct place *p = *state;
    int rounds = scaled(400, 20), posts = rounds * TALKERS;
    volatile int64_t *shared = shared_memory(((size_t)posts + 1 + CHANNELS) * sizeof(int64_t));
    struct talk t = {.rounds = rounds, .inside = shared, .seen = shared + CHANNELS};
    run(p, TALKERS, talk, &t);
    run(p, 1, finish, &t);
    for (int i = 1; i <= posts; i++)
        if (t.seen[i] != 1)
            fail_msg("message %d was read %d times", i, (int)t.seen[i]);
    for (int i = 0; i < CHANNELS; i++)
        assert_int_equal(t.inside[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_each_mention_reaches_one_of_many_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
