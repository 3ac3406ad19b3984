/* SPDX-License-Identifier: MIT */
/*
 * sender_judge.c: what to make of what came back when an answer was posted to Slack.
 *
 *     "ok": true                     sent
 *     "ok": false, and repeating
 *      it would not help             failed: no such channel, a token that is not valid ...
 *     429, "ratelimited"             again after Retry-After; until then nothing else either
 *     everything else                again: no connection, 5xx, a page of some proxy
 *
 * Between attempts the time doubles from one second to ten minutes, of which chance takes away up
 * to half, so that many daemons do not come back at the same moment. A day after the message was
 * answered the next failure is the last.
 */
#include "sender.h"

#include <jansson.h>

#include "base/str.h"

#define RETRY_AFTER_MAX_S 3600 /* who asks for more is asked again all the same */

/* Errors of chat.postMessage that pass; all others are Slack's last word. */
static bool passes(const char *error)
{
    static const char *const passing[] = {
        "ratelimited",     "rate_limited",        "internal_error",    "fatal_error",
        "request_timeout", "service_unavailable", "team_added_to_org", "accesslimited",
    };
    for (size_t i = 0; i < COUNT_OF(passing); i++)
        if (str_eq(passing[i], error))
            return true;
    return false;
}

static int64_t backoff_ms(int64_t attempts, uint32_t chance)
{
    int64_t span = SENDER_FIRST_MS;
    while (attempts-- > 0 && span < SENDER_LAST_MS)
        span *= 2;
    if (span > SENDER_LAST_MS)
        span = SENDER_LAST_MS;
    return span - (int64_t)chance % (span / 2 + 1);
}

/* is_word: Slack's errors are words; anything else is not repeated in logs and events. */
static bool is_word(const char *text)
{
    size_t bytes = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return bytes > 0 && bytes <= 64 && text[bytes] == '\0';
}

/* judge_body: an answer in Slack's form; false when it is none. */
static bool judge_body(const struct sender_reply *reply, struct sender_verdict *out)
{
    json_t *json = json_loadb(reply->body, reply->body_bytes, 0, NULL);
    const json_t *ok = json_object_get(json, "ok");
    const char *error = json_string_value(json_object_get(json, "error"));
    bool is_slack = json_is_boolean(ok);
    if (is_slack && json_is_true(ok)) {
        out->end = DIBS_OUTGOING_SENT;
    } else if (is_slack) {
        error = error != NULL && is_word(error) ? error : "no reason was given";
        out->end = passes(error) ? DIBS_OUTGOING_AGAIN : DIBS_OUTGOING_FAILED;
        snprintf(out->error, sizeof out->error, "Slack says: %s", error);
    }
    json_decref(json);
    return is_slack;
}

/* wait: how long until the next attempt, or that there is none. */
static void wait(const struct sender_reply *reply, int64_t attempts, int64_t age_ms,
                 uint32_t chance, struct sender_verdict *out)
{
    int64_t said_s =
        reply->retry_after_s < RETRY_AFTER_MAX_S ? reply->retry_after_s : RETRY_AFTER_MAX_S;
    char reason[sizeof out->error - 40];
    out->again_ms = backoff_ms(attempts, chance);
    if (said_s > 0 && (reply->http == 429 || said_s * 1000 > out->again_ms))
        out->again_ms = said_s * 1000;
    if (reply->http == 429 || said_s > 0)
        out->pause_ms = out->again_ms;
    if (age_ms < SENDER_GIVE_UP_MS)
        return;
    str_fit(reason, sizeof reason, out->error);
    snprintf(out->error, sizeof out->error, "given up after a day: %s", reason);
    out->end = DIBS_OUTGOING_FAILED;
    out->again_ms = 0;
}

void sender_judge(const struct sender_reply *reply, int64_t attempts, int64_t age_ms,
                  uint32_t chance, struct sender_verdict *out)
{
    *out = (struct sender_verdict){.end = DIBS_OUTGOING_AGAIN};
    if (reply->http == 0)
        str_fit(out->error, sizeof out->error, reply->error);
    else if (reply->http == 429)
        str_fit(out->error, sizeof out->error, "Slack says: too many requests (429)");
    else if (reply->http != 200 || !judge_body(reply, out))
        snprintf(out->error, sizeof out->error, "what answered is not Slack: HTTP status %d%s",
                 reply->http,
                 reply->http >= 300 && reply->http < 400 ? " (redirects are not followed)" : "");
    if (out->end == DIBS_OUTGOING_AGAIN)
        wait(reply, attempts, age_ms, chance, out);
}
