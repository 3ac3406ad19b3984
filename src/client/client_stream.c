/* SPDX-License-Identifier: MIT */
/*
 * client_stream.c: GET /api/events of a daemon as it goes on.
 *
 * The transfer runs on a handle of its own, so that what the events mean can be asked for over the
 * other one meanwhile. Between two looks at the connection tick() decides whether to go on. A
 * stream that says nothing for QUIET_S, not even a comment, counts as broken: the daemon writes one
 * every 15 s.
 */
#include "client_http.h"
#include "event_stream.h"

#include "base/str.h"

#define TICK_MS 200
#define QUIET_S 45
#define REFUSAL_BYTES_MAX (64 * 1024)

struct following {
    struct client *client;
    const struct client_stream *in;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    struct event_stream events;
    struct buf refusal; /* the body, when it is no stream */
    bool began, broken;
};

static bool is_stream(const struct following *f)
{
    const char *type = curl_get_text(f->easy, CURLINFO_CONTENT_TYPE);

    return curl_get_long(f->easy, CURLINFO_RESPONSE_CODE) == 200 && type != NULL &&
           str_starts(type, "text/event-stream");
}

static size_t take(char *bytes, size_t one, size_t count, void *context)
{
    struct following *f = context;
    size_t all = one * count;

    if (!is_stream(f)) {
        buf_append(&f->refusal, bytes, all);
        f->broken = !buf_ok(&f->refusal);
    } else {
        f->broken = !event_stream_feed(&f->events, bytes, all, f->in->event, f->in->context);
    }
    return f->broken ? 0 : all;
}

/* prepare: the request, ready to be started. */
static bool prepare(struct following *f)
{
    const struct curl_calls *curl = f->client->link->curl;
    char since[32] = "";

    f->easy = curl->easy_init();
    f->multi = curl->multi_init();
    if (f->easy == NULL || f->multi == NULL)
        return false;
    snprintf(since, sizeof since, "%" PRId64, f->in->since);
    if (http_address(f->client, f->easy, "/api/events", f->in->query) != CURLE_OK ||
        curl_set_writer(f->easy, take, f) != CURLE_OK ||
        !http_header_add(f->client, &f->headers, "Accept", "text/event-stream") ||
        !http_header_add(f->client, &f->headers, "Last-Event-ID", since) ||
        !http_key_add(f->client, &f->headers))
        return false;
    curl_set_pointer(f->easy, CURLOPT_HTTPHEADER, f->headers);
    curl_set_long(f->easy, CURLOPT_LOW_SPEED_LIMIT, 1);
    curl_set_long(f->easy, CURLOPT_LOW_SPEED_TIME, QUIET_S);
    return curl->multi_add_handle(f->multi, f->easy) == CURLM_OK;
}

/* run: until tick() wants no more (true) or the transfer has ended. */
static bool run(struct following *f)
{
    const struct curl_calls *curl = f->client->link->curl;
    int running = 1;

    while (running > 0) {
        if (curl->multi_perform(f->multi, &running) != CURLM_OK)
            return false;
        if (!f->began && is_stream(f)) {
            f->began = true;
            if (f->in->connected != NULL)
                f->in->connected(f->in->context);
        }
        if (!f->in->tick(f->in->context))
            return true;
        if (running > 0)
            curl->multi_poll(f->multi, NULL, 0, TICK_MS, NULL);
    }
    return false;
}

/* refused: the daemon answered, but not with a stream. */
static dibs_status refused(struct following *f, struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    json_t *json = http_json(&f->refusal, &status);
    const char *message = json_string_value(json_object_get(json, "message"));

    if (json == NULL || status == DIBS_OK)
        status = http_foreign(f->client, f->easy, err);
    else
        status =
            error_set(err, status, "%s", message != NULL ? message : dibs_status_sentence(status));
    json_decref(json);
    return status;
}

/* ended: why the transfer has come to its end. */
static dibs_status ended(struct following *f, struct dibs_error *err)
{
    int left = 0;
    const CURLMsg *message = f->client->link->curl->multi_info_read(f->multi, &left);
    CURLcode code = message != NULL ? message->data.result : CURLE_OUT_OF_MEMORY;

    if (curl_get_long(f->easy, CURLINFO_RESPONSE_CODE) != 0 && !is_stream(f))
        return refused(f, err);
    if (code == CURLE_OUT_OF_MEMORY || (f->broken && !buf_ok(&f->events.data)))
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot follow the events: out of memory");
    if (code != CURLE_OK && !f->began)
        return http_unreachable(f->client, f->easy, code, err);
    return error_set(err, DIBS_DAEMON_UNREACHABLE, "the daemon at '%.150s' has ended the stream",
                     http_where(f->client));
}

dibs_status http_stream(struct client *c, const struct client_stream *in, struct dibs_error *err)
{
    struct following f = {.client = c, .in = in};
    const struct curl_calls *curl = c->link->curl;
    dibs_status status = DIBS_OK;

    /* a stream may go on for days: nothing is kept open beside it that the daemon would have to
     * wait for when it stops */
    curl->easy_cleanup(c->link->easy);
    c->link->easy = curl->easy_init();
    if (c->link->easy == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot follow the events: out of memory");
    event_stream_init(&f.events);
    buf_init(&f.refusal, REFUSAL_BYTES_MAX);
    if (!prepare(&f))
        status = error_set(err, DIBS_OUT_OF_MEMORY, "cannot follow the events: out of memory");
    else if (!run(&f))
        status = ended(&f, err);
    if (f.easy != NULL && f.multi != NULL)
        curl->multi_remove_handle(f.multi, f.easy);
    if (f.easy != NULL)
        curl->easy_cleanup(f.easy);
    if (f.multi != NULL)
        curl->multi_cleanup(f.multi);
    curl->slist_free_all(f.headers);
    event_stream_release(&f.events);
    buf_release(&f.refusal);
    return status;
}
