/* SPDX-License-Identifier: MIT */
/*
 * worker.c: a worker in 60 lines. Takes tasks of one type until there are none, and reports each.
 *
 *     cc worker.c $(pkg-config --cflags --libs dibs) -o worker
 *     dibs init && dibs task add "resize cat.jpg" --type image --param file=cat.jpg
 *     ./worker image
 */
#include <dibs.h>
#include <stdio.h>
#include <unistd.h>

static int complain(const struct dibs_error *err)
{
    fprintf(stderr, "worker: %s\n", err->message);
    return dibs_status_exit(err->code);
}

static dibs_status work_on(dibs *d, dibs_arena *a, const char *session,
                           const struct dibs_granted *got, struct dibs_error *err)
{
    struct dibs_task done;
    printf("working on %s '%s' with %s\n", got->task.id, got->task.title,
           got->task.params ? got->task.params : "no parameters");
    /* the token proves which claim this report belongs to: after the lease was lost it is
     * refused */
    return dibs_complete(d, a,
                         &(struct dibs_report){.task_id = got->task.id,
                                               .session_id = session,
                                               .token = got->claim.token,
                                               .result = "{\"ok\": true}"},
                         &done, err);
}

int main(int argc, char **argv)
{
    struct dibs_error err = {0};
    dibs *d = NULL;
    dibs_arena *home = dibs_arena_new(), *a = dibs_arena_new();
    const char *folder = home ? dibs_find_data_dir(home, NULL) : NULL;
    struct dibs_session me = {0};
    struct dibs_grant got = {0};
    dibs_status status = DIBS_OUT_OF_MEMORY;
    if (!home || !a || !folder) {
        fprintf(stderr, "worker: no .dibs here or above; make one with: dibs init\n");
        return 1;
    }
    if (dibs_open(&(struct dibs_options){.data_dir = folder}, &d, &err) != DIBS_OK)
        return complain(&err);
    struct dibs_session_new new = {.agent_type = "example", .pid = getpid()};
    if (dibs_session_register(d, home, &new, &me, &err) != DIBS_OK)
        return complain(&err);

    struct dibs_claim_next next = {.session_id = me.id};
    if (argc > 1)
        next.types = (struct dibs_strings){.items = (const char *const *)argv + 1, .count = 1};
    while ((status = dibs_claim_next(d, a, &next, &got, &err)) == DIBS_OK) {
        status = work_on(d, a, me.id, &got.items[0], &err);
        if (status != DIBS_OK)
            break;
        dibs_arena_reset(a);
    }
    struct dibs_deregistered bye;
    if (status != DIBS_NOTHING_TO_CLAIM)
        return complain(&err);
    if (dibs_session_deregister(d, a, me.id, &bye, &err) != DIBS_OK)
        return complain(&err);
    dibs_arena_free(a);
    dibs_arena_free(home);
    dibs_close(d);
    return 0;
}
