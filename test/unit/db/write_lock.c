/* SPDX-License-Identifier: MIT */
/*
 * write_lock.c: tests of src/db/write_lock.c: one at a time, in the order of arrival, whoever dies.
 */
#include "db/write_lock.h"

#include "db_test.h"

struct shared {
    volatile int started, inside, most_inside, turns;
    volatile int order[64];
    volatile int go;
};

struct job {
    const char *path;
    struct shared *shared;
    int number, rounds;
};

static void take_turns(void *context)
{
    struct job *job = context;
    struct write_lock lock = {.fd = -1};
    CHECK(write_lock_open(&lock, job->path, NULL) == DIBS_OK);
    for (int i = 0; i < job->rounds; i++) {
        CHECK(write_lock_take(&lock, NULL) == DIBS_OK);
        int inside = __atomic_add_fetch(&job->shared->inside, 1, __ATOMIC_SEQ_CST);
        if (inside > job->shared->most_inside)
            job->shared->most_inside = inside;
        job->shared->turns++; /* not atomic on purpose: the lock must be enough */
        __atomic_sub_fetch(&job->shared->inside, 1, __ATOMIC_SEQ_CST);
        write_lock_release(&lock);
    }
    write_lock_close(&lock);
}

static void test_one_at_a_time_among_processes(void **state)
{
    struct place *p = *state;
    struct shared *s = shared_memory(sizeof *s);
    pid_t pids[6] = {0};
    for (int i = 0; i < 6; i++)
        pids[i] = start_child(take_turns, &(struct job){p->path, s, i, 500});
    for (int i = 0; i < 6; i++)
        assert_int_equal(wait_child(pids[i]), 0);
    assert_int_equal(s->turns, 6 * 500);
    assert_int_equal(s->most_inside, 1);
    munmap(s, sizeof *s);
}

static void note_order(void *context)
{
    struct job *job = context;
    struct write_lock lock = {.fd = -1};
    CHECK(write_lock_open(&lock, job->path, NULL) == DIBS_OK);
    __atomic_add_fetch(&job->shared->started, 1, __ATOMIC_SEQ_CST);
    CHECK(write_lock_take(&lock, NULL) == DIBS_OK);
    job->shared->order[job->shared->turns++] = job->number;
    write_lock_release(&lock);
    write_lock_close(&lock);
}

/* The ticket counter of the lock file: it has moved when somebody queues. */
static int64_t tickets_drawn(const char *path)
{
    char name[128] = {0};
    int64_t next = -1;
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &next, sizeof next, 16) != (ssize_t)sizeof next)
        next = -1;
    if (fd >= 0)
        close(fd);
    return next;
}

static bool wait_for_ticket(const char *path, int64_t drawn)
{
    int64_t deadline = steady_us() + 10 * 1000000;
    while (tickets_drawn(path) < drawn && steady_us() < deadline)
        poll(NULL, 0, 1);
    return tickets_drawn(path) >= drawn;
}

static void test_turns_come_in_the_order_of_arrival(void **state)
{
    struct place *p = *state;
    struct shared *s = shared_memory(sizeof *s);
    struct write_lock lock = {.fd = -1};
    pid_t pids[10] = {0};
    assert_int_equal(write_lock_open(&lock, p->path, NULL), DIBS_OK);
    assert_int_equal(write_lock_take(&lock, NULL), DIBS_OK);
    for (int i = 0; i < 10; i++) {
        pids[i] = start_child(note_order, &(struct job){p->path, s, i, 1});
        assert_true(wait_for_ticket(p->path, i + 2));
    }
    write_lock_release(&lock);
    assert_int_equal(write_lock_take(&lock, NULL), DIBS_OK); /* at once, and yet the last */
    assert_int_equal(s->turns, 10);
    write_lock_release(&lock);
    for (int i = 0; i < 10; i++)
        assert_int_equal(wait_child(pids[i]), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(s->order[i], i);
    write_lock_close(&lock);
    munmap(s, sizeof *s);
}

static void test_those_who_die_in_the_queue_neither_block_nor_let_others_in(void **state)
{
    struct place *p = *state;
    struct shared *s = shared_memory(sizeof *s);
    struct write_lock lock = {.fd = -1};
    pid_t pids[6] = {0};
    assert_int_equal(write_lock_open(&lock, p->path, NULL), DIBS_OK);
    assert_int_equal(write_lock_take(&lock, NULL), DIBS_OK);
    for (int i = 0; i < 6; i++) {
        pids[i] = start_child(note_order, &(struct job){p->path, s, i, 1});
        assert_true(wait_for_ticket(p->path, i + 2));
    }
    for (int i = 0; i < 6; i += 2) { /* 1, 3, 5 lose the one they wait for */
        kill(pids[i], SIGKILL);
        assert_int_equal(wait_child(pids[i]), 1000 + SIGKILL);
    }
    poll(NULL, 0, 50); /* time for a mistake: nobody may come in while we hold the lock */
    assert_int_equal(s->turns, 0);
    write_lock_release(&lock);
    for (int i = 1; i < 6; i += 2)
        assert_int_equal(wait_child(pids[i]), 0);
    assert_int_equal(s->turns, 3);
    write_lock_close(&lock);
    munmap(s, sizeof *s);
}

static void die_inside(void *context)
{
    struct job *job = context;
    struct write_lock lock = {.fd = -1};
    CHECK(write_lock_open(&lock, job->path, NULL) == DIBS_OK);
    CHECK(write_lock_take(&lock, NULL) == DIBS_OK);
    raise(SIGKILL);
}

static void test_a_holder_that_dies_lets_go(void **state)
{
    struct place *p = *state;
    struct write_lock lock = {.fd = -1};
    assert_int_equal(run_child(die_inside, &(struct job){.path = p->path}), 1000 + SIGKILL);
    assert_int_equal(write_lock_open(&lock, p->path, NULL), DIBS_OK);
    assert_int_equal(write_lock_take(&lock, NULL), DIBS_OK);
    write_lock_close(&lock);
}

static void test_a_deleted_lock_file_is_made_again(void **state)
{
    struct place *p = *state;
    char name[128] = {0};
    struct write_lock one = {.fd = -1}, two = {.fd = -1};
    snprintf(name, sizeof name, "%s.lock", p->path);
    assert_int_equal(write_lock_open(&one, p->path, NULL), DIBS_OK);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(write_lock_take(&one, NULL), DIBS_OK);
    /* whoever comes now must meet the same file */
    assert_int_equal(write_lock_open(&two, p->path, NULL), DIBS_OK);
    assert_int_equal(write_lock_holder(p->path), getpid());
    write_lock_close(&one);
    assert_int_equal(write_lock_take(&two, NULL), DIBS_OK);
    write_lock_close(&two);
}

static void test_a_damaged_counter_costs_nothing_but_order(void **state)
{
    struct place *p = *state;
    char name[128] = {0};
    unsigned char noise[64];
    memset(noise, 0xff, sizeof noise);
    snprintf(name, sizeof name, "%s.lock", p->path);
    assert_true(write_file(name, noise, sizeof noise));
    test_one_at_a_time_among_processes(state);
}

static void test_the_holder_is_told(void **state)
{
    struct place *p = *state;
    struct write_lock lock = {.fd = -1};
    assert_int_equal(write_lock_holder(p->path), 0);
    assert_int_equal(write_lock_open(&lock, p->path, NULL), DIBS_OK);
    assert_int_equal(write_lock_holder(p->path), 0);
    assert_int_equal(write_lock_take(&lock, NULL), DIBS_OK);
    assert_int_equal(write_lock_holder(p->path), getpid());
    write_lock_release(&lock);
    assert_int_equal(write_lock_holder(p->path), 0);
    write_lock_close(&lock);
    write_lock_close(&lock);
}

static void ignore_signal(int number)
{
    (void)number;
}

static void test_a_signal_does_not_end_the_wait(void **state)
{
    struct place *p = *state;
    struct shared *s = shared_memory(sizeof *s);
    struct write_lock lock = {.fd = -1};
    struct sigaction act = {.sa_handler = ignore_signal}, before = {0};
    sigaction(SIGUSR1, &act, &before);
    assert_int_equal(write_lock_open(&lock, p->path, NULL), DIBS_OK);
    assert_int_equal(write_lock_take(&lock, NULL), DIBS_OK);
    pid_t pid = start_child(note_order, &(struct job){p->path, s, 7, 1});
    assert_true(wait_for_ticket(p->path, 2));
    for (int i = 0; i < 20; i++) {
        kill(pid, SIGUSR1);
        poll(NULL, 0, 1);
    }
    assert_int_equal(s->turns, 0);
    write_lock_release(&lock);
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(s->order[0], 7);
    sigaction(SIGUSR1, &before, NULL);
    write_lock_close(&lock);
    munmap(s, sizeof *s);
}

static void test_a_lock_file_that_is_a_link_is_refused(void **state)
{
    struct place *p = *state;
    char name[128] = {0};
    struct write_lock lock = {.fd = -1};
    struct dibs_error err = {0};
    snprintf(name, sizeof name, "%s.lock", p->path);
    assert_int_equal(symlink("/etc/passwd", name), 0);
    assert_int_equal(write_lock_open(&lock, p->path, &err), DIBS_STORE_UNAVAILABLE);
    assert_non_null(strstr(err.message, "lock file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_one_at_a_time_among_processes),
        STORE_TEST(test_turns_come_in_the_order_of_arrival),
        STORE_TEST(test_those_who_die_in_the_queue_neither_block_nor_let_others_in),
        STORE_TEST(test_a_holder_that_dies_lets_go),
        STORE_TEST(test_a_deleted_lock_file_is_made_again),
        STORE_TEST(test_a_damaged_counter_costs_nothing_but_order),
        STORE_TEST(test_the_holder_is_told),
        STORE_TEST(test_a_signal_does_not_end_the_wait),
        STORE_TEST(test_a_lock_file_that_is_a_link_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
