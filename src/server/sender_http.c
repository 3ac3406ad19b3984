/* SPDX-License-Identifier: MIT */
/*
 * sender_http.c: one POST by libcurl, which can be broken off at any moment.
 *
 *   1. Only http and https, no redirects: the token goes where it was meant to go.
 *   2. The token is in a header, never in an address or a message.
 *   3. Each post has a connection of its own: on a used one that turns out to be dead libcurl would
 *      send it a second time by itself.
 */
#include "sender.h"

#include "base/buf.h"
#include "base/str.h"
#include "curl_calls.h"

#define CONNECT_MS 5000
#define ANSWER_MS 15000
#define LOOK_MS 500
#define REPLY_BYTES_MAX (4 * 1024 * 1024) /* Slack sends the message back, more than once */

struct sender_http {
    const struct curl_calls *curl;
    CURLM *multi;
    struct buf reply;
    char error[CURL_ERROR_SIZE];
};

struct sender_http *sender_http_new(struct dibs_error *err)
{
    const struct curl_calls *curl = curl_load(err);
    struct sender_http *h = curl != NULL ? mem_alloc(sizeof *h) : NULL;
    if (curl == NULL)
        return NULL;
    if (h != NULL) {
        h->curl = curl;
        h->multi = curl->multi_init();
        buf_init(&h->reply, REPLY_BYTES_MAX);
    }
    if (h == NULL || h->multi == NULL) {
        error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
        mem_free(h);
        return NULL;
    }
    return h;
}

void sender_http_free(struct sender_http *h)
{
    if (h == NULL)
        return;
    h->curl->multi_cleanup(h->multi);
    buf_release(&h->reply);
    mem_free(h);
}

void sender_http_wake(struct sender_http *h)
{
    h->curl->multi_wakeup(h->multi);
}

static size_t collect(char *bytes, size_t one, size_t count, void *context)
{
    struct sender_http *h = context;
    buf_append(&h->reply, bytes, one * count);
    return buf_ok(&h->reply) ? one * count : 0;
}

static bool add_header(const struct sender_http *h, struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = h->curl->slist_append(*list, text);
    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

static bool add_headers(const struct sender_http *h, const char *token, struct curl_slist **list)
{
    char bearer[HOOK_TEXT_BYTES + 32];
    snprintf(bearer, sizeof bearer, "Authorization: Bearer %s", token);
    return add_header(h, list, bearer) &&
           add_header(h, list, "Content-Type: application/json; charset=utf-8") &&
           add_header(h, list, "Accept: application/json") && add_header(h, list, "Expect:");
}

static CURLcode set_up(struct sender_http *h, CURL *easy, const struct sender_post *in,
                       const struct curl_slist *headers)
{
    CURLcode code = curl_set_text(easy, CURLOPT_URL, in->url);
    if (code == CURLE_OK)
        code = curl_set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (code == CURLE_OK)
        code = curl_set_text(easy, CURLOPT_USERAGENT, "dibs/" DIBS_VERSION);
    if (code == CURLE_OK)
        code = curl_set_writer(easy, collect, h);
    curl_set_pointer(easy, CURLOPT_POSTFIELDS, in->body);
    curl_set_long(easy, CURLOPT_POSTFIELDSIZE, (long)strlen(in->body));
    curl_set_pointer(easy, CURLOPT_HTTPHEADER, headers);
    curl_set_long(easy, CURLOPT_NOSIGNAL, 1);
    curl_set_long(easy, CURLOPT_FORBID_REUSE, 1);
    curl_set_long(easy, CURLOPT_QUICK_EXIT, 1); /* a name that is being looked up is not awaited */
    curl_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_set_long(easy, CURLOPT_TIMEOUT_MS, ANSWER_MS);
    h->error[0] = '\0';
    curl_set_pointer(easy, CURLOPT_ERRORBUFFER, h->error);
    return code;
}

/* perform: false when it was ended; else *code tells how it went. */
static bool perform(const struct sender_http *h, const struct sender_post *in, CURLcode *code)
{
    int running = 1, left = 0;
    const CURLMsg *message = NULL;
    *code = CURLE_OUT_OF_MEMORY;
    for (;;) {
        if (h->curl->multi_perform(h->multi, &running) != CURLM_OK)
            return true;
        if (running == 0)
            break;
        if (in->is_over(in->context))
            return false;
        h->curl->multi_poll(h->multi, NULL, 0, LOOK_MS, NULL);
    }
    while ((message = h->curl->multi_info_read(h->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            *code = message->data.result;
    return true;
}

static void read_reply(const struct sender_http *h, CURL *easy, CURLcode code,
                       struct sender_reply *out)
{
    if (code != CURLE_OK) {
        out->error = h->error[0] != '\0' ? h->error : h->curl->easy_strerror(code);
        return;
    }
    out->http = (int)curl_get_long(easy, CURLINFO_RESPONSE_CODE);
    out->retry_after_s = curl_get_number(easy, CURLINFO_RETRY_AFTER);
    out->body = h->reply.data != NULL ? h->reply.data : "";
    out->body_bytes = h->reply.len;
    if (out->http == 0)
        out->error = "no HTTP";
}

bool sender_http_post(struct sender_http *h, const struct sender_post *in, struct sender_reply *out)
{
    struct curl_slist *headers = NULL;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    CURL *easy = h->curl->easy_init();
    bool whole = true;
    *out = (struct sender_reply){.error = "out of memory"};
    buf_reset(&h->reply);
    if (easy != NULL && add_headers(h, in->token, &headers) &&
        set_up(h, easy, in, headers) == CURLE_OK &&
        h->curl->multi_add_handle(h->multi, easy) == CURLM_OK) {
        whole = perform(h, in, &code);
        read_reply(h, easy, code, out);
        h->curl->multi_remove_handle(h->multi, easy);
    }
    if (easy != NULL)
        h->curl->easy_cleanup(easy);
    h->curl->slist_free_all(headers);
    return whole;
}
