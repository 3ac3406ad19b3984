/* SPDX-License-Identifier: MIT */
/* fault_rows_inbox.c: the rows of fault_rows.h about messages and notices of finished tasks. */
#include "core_help.h"
#include "fault_calls.h"
#include "fault_rows.h"

CALL(add, dibs_inbox_add, struct dibs_message,
     &(struct dibs_message_new){.content = "new", .channel = "C", .metadata = "{\"a\":1}"})
CALL(get, dibs_inbox_get, struct dibs_message, "taken")
CALL(list, dibs_inbox_list, struct dibs_message_list, &(struct dibs_inbox_filter){.limit = 2})
CALL(claim_messages, dibs_inbox_claim, struct dibs_message_list,
     &(struct dibs_inbox_claim){.agent_id = "lead", .session_id = "lead-1"})
CALL(read_one, dibs_inbox_read, struct dibs_message, &(struct dibs_inbox_answer){.id = "unread"})
CALL(respond, dibs_inbox_respond, struct dibs_message,
     &(struct dibs_inbox_answer){.id = "taken", .session_id = "lead-1", .response = "yes"})
CALL(delegate, dibs_inbox_delegate, struct dibs_message,
     &(struct dibs_inbox_answer){
         .id = "taken", .session_id = "lead-1", .task = &(struct dibs_task_new){.title = "T"}})
CALL(release, dibs_inbox_release, struct dibs_message,
     &(struct dibs_inbox_answer){.id = "taken", .session_id = "lead-1"})
CALL(claim_notices, dibs_notices_claim, struct dibs_notices,
     &(struct dibs_notices_claim){.agent_id = "lead", .session_id = "lead-1", .manual = true})
CALL(tell_notices, dibs_notices_claim, struct dibs_notices,
     &(struct dibs_notices_claim){.agent_id = "lead", .session_id = "lead-1"})
CALL(ack, dibs_notices_ack, int64_t, &(struct dibs_notices_ack){.session_id = "lead-1"})
CALL(release_notices, dibs_notices_release, int64_t,
     &(struct dibs_notices_ack){.session_id = "lead-1"})
CALL(leave, dibs_session_deregister, struct dibs_deregistered, "lead-1")

#define DO(call) assert_int_equal(call, DIBS_OK)

static void add_message(struct scene *s, const char *id)
{
    struct dibs_message out = {0};
    struct dibs_message_new in = {
        .id = id, .source = "slack", .content = "c", .channel = "C", .thread = "1"};
    DO(dibs_inbox_add(s->d, s->f->a, &in, &out, &s->err));
}

static void finish(struct scene *s, const char *id)
{
    struct dibs_task_list made = {0};
    struct dibs_claim claim = {0};
    struct dibs_task task = {0};
    struct dibs_task_new in = {.id = id, .title = id};
    struct dibs_claim_take take = {.task_id = id, .session_id = "hand"};
    struct dibs_report report = {.task_id = id, .session_id = "hand"};
    DO(dibs_task_create(s->d, s->f->a, &in, 1, &made, &s->err));
    DO(dibs_claim_take(s->d, s->f->a, &take, &claim, &s->err));
    DO(dibs_complete(s->d, s->f->a, &report, &task, &s->err));
}

/* A lead at one of two messages, two finished tasks of which it is being told of one. */
static void prepare_lead(struct scene *s)
{
    struct dibs_agent agent = {0};
    struct dibs_session session = {0};
    struct dibs_message_list taken = {0};
    struct dibs_notices told = {0};
    struct dibs_agent_new lead = {.id = "lead", .is_lead = DIBS_VALUE(1)};
    struct dibs_session_new of_lead = {.id = "lead-1", .agent_id = "lead"}, hand = {.id = "hand"};
    struct dibs_inbox_claim take = {.agent_id = "lead", .session_id = "lead-1"};
    struct dibs_notices_claim hear = {.agent_id = "lead", .session_id = "lead-1", .manual = true};
    DO(dibs_agent_register(s->d, s->f->a, &lead, &agent, &s->err));
    DO(dibs_session_register(s->d, s->f->a, &of_lead, &session, &s->err));
    DO(dibs_session_register(s->d, s->f->a, &hand, &session, &s->err));
    add_message(s, "taken");
    DO(dibs_inbox_claim(s->d, s->f->a, &take, &taken, &s->err));
    add_message(s, "unread");
    finish(s, "told");
    DO(dibs_notices_claim(s->d, s->f->a, &hear, &told, &s->err));
    finish(s, "untold");
}

const struct fault_row fault_inbox_rows[] = {
    {"dibs_inbox_add", NULL, add, DIBS_OK, false, prepare_lead},
    {"dibs_inbox_get", NULL, get, DIBS_OK, false, prepare_lead},
    {"dibs_inbox_list", NULL, list, DIBS_OK, false, prepare_lead},
    {"dibs_inbox_claim", NULL, claim_messages, DIBS_OK, false, prepare_lead},
    {"dibs_inbox_read", NULL, read_one, DIBS_OK, false, prepare_lead},
    {"dibs_inbox_respond", NULL, respond, DIBS_OK, false, prepare_lead},
    {"dibs_inbox_delegate", NULL, delegate, DIBS_OK, false, prepare_lead},
    {"dibs_inbox_release", NULL, release, DIBS_OK, false, prepare_lead},
    {"dibs_notices_claim", "manual", claim_notices, DIBS_OK, false, prepare_lead},
    {"dibs_notices_claim", NULL, tell_notices, DIBS_OK, false, prepare_lead},
    {"dibs_notices_ack", NULL, ack, DIBS_OK, false, prepare_lead},
    {"dibs_notices_release", NULL, release_notices, DIBS_OK, false, prepare_lead},
    {"dibs_session_deregister", "with messages and notices", leave, DIBS_OK, false, prepare_lead},
    {.call = NULL},
};
