/* SPDX-License-Identifier: MIT */
/* fault_rows_agent.c: the rows of fault_rows.h about agents and polls, one for each trigger. */
#include "core/owner.h"
#include "fault_calls.h"
#include "fault_rows.h"

#define DO(call) assert_int_equal(call, DIBS_OK)

static void add_agent(struct scene *s, const char *id, bool is_lead)
{
    struct dibs_agent out = {0};
    struct dibs_agent_new in = {
        .id = id, .is_lead = DIBS_VALUE(is_lead), .max_tasks = DIBS_VALUE(9)};
    DO(dibs_agent_register(s->d, s->f->a, &in, &out, &s->err));
}

/* A lead with room, for whom there is nothing yet. */
static void with_lead(struct scene *s)
{
    add_agent(s, "chief", true);
}

static void with_offer(struct scene *s)
{
    struct dibs_task_list out = {0};
    struct dibs_task_new in = {.id = "for-chief", .title = "T", .offered_to = "chief"};
    with_lead(s);
    DO(dibs_task_create(s->d, s->f->a, &in, 1, &out, &s->err));
}

static void with_assigned(struct scene *s)
{
    struct dibs_task_list out = {0};
    struct dibs_task_new in = {.id = "for-chief", .title = "T", .assignee = "chief"};
    with_lead(s);
    DO(dibs_task_create(s->d, s->f->a, &in, 1, &out, &s->err));
}

static void with_message(struct scene *s)
{
    struct dibs_message out = {0};
    with_lead(s);
    DO(dibs_inbox_add(s->d, s->f->a, &(struct dibs_message_new){.content = "hello"}, &out,
                      &s->err));
}

static void with_mention(struct scene *s)
{
    struct dibs_channel channel = {0};
    struct dibs_post post = {0};
    struct dibs_post_new in = {.channel_id = "talk", .author = "x", .content = "@chief"};
    with_lead(s);
    DO(dibs_channel_create(s->d, s->f->a, &(struct dibs_channel_new){.id = "talk"}, &channel,
                           &s->err));
    DO(dibs_channel_post(s->d, s->f->a, &in, &post, &s->err));
}

static void with_finished(struct scene *s)
{
    struct dibs_task out = {0};
    struct dibs_report in = {.task_id = "held", .session_id = "ann-1"};
    with_lead(s);
    DO(dibs_complete(s->d, s->f->a, &in, &out, &s->err));
}

static void with_worker(struct scene *s)
{
    add_agent(s, "hand", false);
}

CALL(make, dibs_agent_register, struct dibs_agent,
     &(struct dibs_agent_new){
         .name = "new", .capabilities = &DIBS_STRINGS("c", "sql"), .metadata = "{\"a\":1}"})
CALL(change, dibs_agent_register, struct dibs_agent,
     &(struct dibs_agent_new){.id = "ann", .max_tasks = DIBS_VALUE(3)})
CALL(get, dibs_agent_get, struct dibs_agent, "ann")
CALL(list, dibs_agent_list, struct dibs_agent_list, &(struct dibs_agent_filter){0})
CALL(poll_lead, dibs_poll, struct dibs_trigger,
     &(struct dibs_poll){.agent_id = "chief", .ack_manual = true})
CALL(poll_pool, dibs_poll, struct dibs_trigger, &(struct dibs_poll){.agent_id = "hand"})
CALL(poll_claim, dibs_poll, struct dibs_trigger,
     &(struct dibs_poll){.agent_id = "hand", .claim = true})
CALL(poll_unknown, dibs_poll, struct dibs_trigger, &(struct dibs_poll){.agent_id = "nobody"})
CALL(project_of, dibs__agent_project, const char *, "ann")

const struct fault_row fault_agent_rows[] = {
    {"dibs_agent_register", NULL, make, DIBS_OK, false, NULL},
    {"dibs_agent_register", "again", change, DIBS_OK, false, NULL},
    {"dibs_agent_get", NULL, get, DIBS_OK, false, NULL},
    {"dibs_agent_list", NULL, list, DIBS_OK, false, NULL},
    {"dibs_poll", "with nothing to do", poll_lead, DIBS_OK, false, with_lead},
    {"dibs_poll", "of an offer", poll_lead, DIBS_OK, false, with_offer},
    {"dibs_poll", "of an assigned task", poll_lead, DIBS_OK, false, with_assigned},
    {"dibs_poll", "of a message", poll_lead, DIBS_OK, false, with_message},
    {"dibs_poll", "of a mention", poll_lead, DIBS_OK, false, with_mention},
    {"dibs_poll", "of a finished task", poll_lead, DIBS_OK, false, with_finished},
    {"dibs_poll", "of the pool", poll_pool, DIBS_OK, false, with_worker},
    {"dibs_poll", "that claims", poll_claim, DIBS_OK, false, with_worker},
    {"dibs_poll", "of nobody", poll_unknown, DIBS_AGENT_NOT_FOUND, false, NULL},
    {"dibs__agent_project", NULL, project_of, DIBS_OK, false, NULL},
    {.call = NULL},
};
