/* SPDX-License-Identifier: MIT */
/*
 * client_http.c: a request to a daemon, over its unix socket or over TCP, by libcurl.
 *
 *   1. A write whose fate is unknown is not repeated, unless it carries an idempotency key, and
 *      then once. That is also why a write gets a connection of its own: on a used one that turns
 *      out to be dead, libcurl would send it again by itself.
 *   2. What was never sent may be repeated once; over the socket, a daemon that has gone meanwhile
 *      leaves the data file to us, and the request goes there.
 *   3. Only http and https, no redirects: an API key goes where it was meant to go. It is sent to a
 *      URL only; on the socket the owner of the data needs none.
 *   4. An answer counts only when it is one of ours, a JSON object with "success". Anything else
 *      (a proxy's page, another program on the port) is told with its HTTP status.
 */
#include <poll.h>

#include "client_http.h"

#include "base/str.h"

#define CONNECT_MS 5000
#define SOCKET_ANSWER_MS 10000 /* the daemon is on this machine: longer means that it is stuck */
#define URL_ANSWER_MS 30000
#define PAUSE_MS 200 /* before a second attempt: a daemon that restarts is back soon */
#define API_KEY_BYTES_MAX 512

/* ---- what may be sent ------------------------------------------------------------------------ */

/* is_visible: printable ASCII without blanks: fits into a header or a URL as it is. */
static bool is_visible(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* is_header_text: no header can be smuggled in by it, and nothing is cut off at its ends. */
static bool is_header_text(const char *text)
{
    size_t bytes = strlen(text);

    if (bytes == 0 || text[0] == ' ' || text[bytes - 1] == ' ')
        return false;
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            return false;
    return true;
}

dibs_status client_check_url(const char *url, size_t *bytes, struct dibs_error *err)
{
    size_t scheme = str_starts(url, "http://") ? 7 : str_starts(url, "https://") ? 8 : 0;
    size_t host = strcspn(url + scheme, "/");

    if (scheme == 0)
        return error_set(err, DIBS_INVALID_REQUEST,
                         "the URL of a daemon begins with http:// or https://, not '%.100s'", url);
    if (memchr(url + scheme, '@', host) != NULL)
        return error_set(err, DIBS_INVALID_REQUEST,
                         "the URL of a daemon contains no name and password; set DIBS_API_KEY to "
                         "the key instead");
    if (host == 0 || !is_visible(url) || strpbrk(url, "?#\"<>\\^`{|}") != NULL)
        return error_set(err, DIBS_INVALID_REQUEST,
                         "'%.200s' is not the URL of a daemon; it looks like "
                         "http://127.0.0.1:7117",
                         url);
    *bytes = strlen(url);
    while (*bytes > scheme && url[*bytes - 1] == '/')
        (*bytes)--;
    return DIBS_OK;
}

/* ---- the link -------------------------------------------------------------------------------- */

dibs_status client_go_http(struct client *c, struct dibs_error *err)
{
    const char *key = c->url != NULL ? getenv("DIBS_API_KEY") : NULL;
    struct http_link *link = NULL;

    if (key != NULL && (!is_visible(key) || strlen(key) > API_KEY_BYTES_MAX))
        return error_set(err, DIBS_INVALID_REQUEST,
                         "DIBS_API_KEY is not an API key: those are up to %d visible characters",
                         API_KEY_BYTES_MAX);
    link = mem_alloc(sizeof *link);
    if (link == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot reach the daemon: out of memory");
    c->link = link;
    c->way = &way_http;
    if (key != NULL && key[0] != '\0') {
        link->api_key = mem_copy(key);
        if (link->api_key == NULL)
            return error_set(err, DIBS_OUT_OF_MEMORY, "cannot reach the daemon: out of memory");
    }
    link->curl = curl_load(err);
    if (link->curl == NULL)
        return DIBS_DAEMON_UNREACHABLE;
    link->easy = link->curl->easy_init();
    if (link->easy == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot reach the daemon: out of memory");
    return DIBS_OK;
}

void http_link_free(struct http_link *link)
{
    if (link == NULL)
        return;
    if (link->easy != NULL)
        link->curl->easy_cleanup(link->easy);
    mem_free(link->api_key);
    mem_free(link);
}

const char *http_where(const struct client *c)
{
    return c->url != NULL ? c->url : c->socket_path;
}

/* is_loopback: a proxy cannot reach what is on this machine. */
static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"localhost", "127.", "[::1]"};
    const char *host = strstr(url, "//") + 2;

    for (size_t i = 0; i < COUNT_OF(hosts); i++)
        if (str_starts(host, hosts[i]))
            return true;
    return false;
}

CURLcode http_address(const struct client *c, CURL *easy, const char *path, const char *query)
{
    bool has_query = query != NULL && query[0] != '\0';
    CURLcode code = CURLE_OK;
    struct buf b;

    buf_init(&b, BODY_BYTES_MAX);
    buf_printf(&b, "%s%s%s%s", c->url != NULL ? c->url : "http://localhost", path,
               has_query ? "?" : "", has_query ? query : "");
    code = buf_ok(&b) ? curl_set_text(easy, CURLOPT_URL, b.data) : CURLE_OUT_OF_MEMORY;
    buf_release(&b);
    if (code == CURLE_OK)
        code = curl_set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (code == CURLE_OK && c->socket_path != NULL)
        code = curl_set_text(easy, CURLOPT_UNIX_SOCKET_PATH, c->socket_path);
    if (code == CURLE_OK && (c->socket_path != NULL || is_loopback(c->url)))
        code = curl_set_text(easy, CURLOPT_PROXY, "");
    if (code == CURLE_OK)
        code = curl_set_text(easy, CURLOPT_USERAGENT, "dibs/" DIBS_VERSION);
    curl_set_long(easy, CURLOPT_PATH_AS_IS, 1);
    curl_set_long(easy, CURLOPT_NOSIGNAL, 1);
    curl_set_long(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS,
                  c->patience_ms > 0 ? (long)c->patience_ms : CONNECT_MS);
    curl_set_pointer(easy, CURLOPT_ERRORBUFFER, c->link->error);
    c->link->error[0] = '\0';
    return code;
}

bool http_header_add(const struct client *c, struct curl_slist **list, const char *name,
                     const char *value)
{
    struct curl_slist *longer = NULL;
    struct buf b;

    buf_init(&b, KEY_BYTES_MAX + API_KEY_BYTES_MAX);
    buf_printf(&b, "%s:%s%s", name, value[0] != '\0' ? " " : "", value);
    if (buf_ok(&b))
        longer = c->link->curl->slist_append(*list, b.data);
    buf_release(&b);
    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

bool http_key_add(const struct client *c, struct curl_slist **list)
{
    char value[API_KEY_BYTES_MAX + 16] = "";

    if (c->link->api_key == NULL)
        return true;
    snprintf(value, sizeof value, "Bearer %s", c->link->api_key);
    return http_header_add(c, list, "Authorization", value);
}

/* ---- one exchange ---------------------------------------------------------------------------- */

/* What became of one attempt. */
struct exchange {
    CURLcode code;
    bool sent; /* at least a part of the request has left */
    long http, answer_ms;
    struct buf body;
};

static size_t collect(char *bytes, size_t one, size_t count, void *context)
{
    struct exchange *x = context;

    buf_append(&x->body, bytes, one * count);
    return buf_ok(&x->body) ? one * count : 0;
}

static bool is_read(const struct api_request *in)
{
    return str_eq(in->method, "GET");
}

static bool headers_of(const struct client *c, const struct api_request *in,
                       struct curl_slist **list)
{
    bool ok = http_header_add(c, list, "Accept", "application/json") && http_key_add(c, list);

    if (!is_read(in))
        /* and no "Expect: 100-continue": there is nothing to be saved by asking first */
        ok = ok && http_header_add(c, list, "Content-Type", "application/json") &&
             http_header_add(c, list, "Expect", "");
    if (in->idempotency_key != NULL)
        ok = ok && http_header_add(c, list, "Idempotency-Key", in->idempotency_key);
    return ok;
}

static bool is_given_up(const struct client *c)
{
    return c->given_up != NULL && atomic_load(c->given_up);
}

/* watch: asked by libcurl about once a second, and whenever something comes in; 1 ends it. */
static int watch(void *context, curl_off_t down, curl_off_t downed, curl_off_t up, curl_off_t upped)
{
    (void)down, (void)downed, (void)up, (void)upped;
    return is_given_up(context) ? 1 : 0;
}

/* set_watch: a request that may be given up while it waits. */
static void set_watch(const struct client *c, CURL *easy)
{
    curl_xferinfo_callback function = watch;
    void *address = NULL;

    if (c->given_up == NULL)
        return;
    memcpy(&address, &function, sizeof address); /* ISO C has no cast for it, POSIX allows it */
    curl_set_pointer(easy, CURLOPT_XFERINFOFUNCTION, address);
    curl_set_pointer(easy, CURLOPT_XFERINFODATA, c);
    curl_set_long(easy, CURLOPT_NOPROGRESS, 0);
}

/* set_request: everything about the request but its headers. */
static CURLcode set_request(const struct client *c, const struct api_request *in,
                            struct exchange *x)
{
    CURL *easy = c->link->easy;
    CURLcode code = http_address(c, easy, in->path, in->query);

    if (code == CURLE_OK && !is_read(in)) {
        curl_set_pointer(easy, CURLOPT_POSTFIELDS, in->body != NULL ? in->body : "");
        curl_set_long(easy, CURLOPT_POSTFIELDSIZE, (long)in->body_bytes);
        curl_set_long(easy, CURLOPT_FRESH_CONNECT, 1);
        curl_set_long(easy, CURLOPT_FORBID_REUSE, 1); /* nothing would use it again */
        code = curl_set_text(easy, CURLOPT_CUSTOMREQUEST, in->method);
    }
    curl_set_long(easy, CURLOPT_TIMEOUT_MS, x->answer_ms);
    set_watch(c, easy);
    return code == CURLE_OK ? curl_set_writer(easy, collect, x) : code;
}

/* exchange: sends the request once and takes in what comes back. */
static void exchange(const struct client *c, const struct api_request *in, struct exchange *x)
{
    struct http_link *link = c->link;
    struct curl_slist *headers = NULL;

    buf_reset(&x->body);
    link->curl->easy_reset(link->easy);
    x->code = set_request(c, in, x);
    if (x->code == CURLE_OK && !headers_of(c, in, &headers))
        x->code = CURLE_OUT_OF_MEMORY;
    if (x->code == CURLE_OK)
        curl_set_pointer(link->easy, CURLOPT_HTTPHEADER, headers);
    if (x->code == CURLE_OK)
        x->code = link->curl->easy_perform(link->easy);
    x->sent = curl_get_long(link->easy, CURLINFO_REQUEST_SIZE) > 0;
    x->http = curl_get_long(link->easy, CURLINFO_RESPONSE_CODE);
    curl_set_pointer(link->easy, CURLOPT_HTTPHEADER, NULL);
    link->curl->slist_free_all(headers);
}

/* ---- what went wrong ------------------------------------------------------------------------- */

dibs_status http_unreachable(const struct client *c, CURL *easy, CURLcode code,
                             struct dibs_error *err)
{
    long number = code == CURLE_COULDNT_CONNECT ? curl_get_long(easy, CURLINFO_OS_ERRNO) : 0;
    const char *reason = number != 0                 ? strerror((int)number)
                         : c->link->error[0] != '\0' ? c->link->error
                                                     : c->link->curl->easy_strerror(code);
    char text[200] = "";

    str_fit(text, sizeof text, reason);
    if (text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a' && text[1] <= 'z')
        text[0] = (char)(text[0] - 'A' + 'a');
    return error_set(err, DIBS_DAEMON_UNREACHABLE, "cannot reach the daemon at '%.150s': %s; %s",
                     http_where(c), text,
                     c->url != NULL
                         ? "see that 'dibs serve' runs there and that --url or DIBS_URL is right"
                         : "see its log, or restart it");
}

/* too_late: the daemon has the request and does not answer. */
static dibs_status too_late(const struct client *c, const struct api_request *in,
                            const struct exchange *x, struct dibs_error *err)
{
    char span[32] = "";

    str_from_duration_ms(x->answer_ms, span);
    return error_set(err, DIBS_DAEMON_UNREACHABLE,
                     "the daemon at '%.150s' has not answered within %s%s; it may be stuck: look "
                     "at its log, or restart it",
                     http_where(c), span,
                     is_read(in) ? "" : " (the request may have been carried out)");
}

/* explain: the sentence about an attempt that brought no answer. */
static dibs_status explain(const struct client *c, const struct api_request *in,
                           const struct exchange *x, struct dibs_error *err)
{
    if (x->code == CURLE_OUT_OF_MEMORY)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot ask the daemon: out of memory");
    if (x->code == CURLE_WRITE_ERROR)
        return buf_status(&x->body, err);
    if (x->code == CURLE_OPERATION_TIMEDOUT && x->sent)
        return too_late(c, in, x, err);
    if (!x->sent || is_read(in))
        return http_unreachable(c, c->link->easy, x->code, err);
    return error_set(err, DIBS_DAEMON_UNREACHABLE,
                     "the daemon at '%.150s' hung up without an answer; the request may have been "
                     "carried out: look before you repeat it",
                     http_where(c));
}

dibs_status http_foreign(const struct client *c, CURL *easy, struct dibs_error *err)
{
    const char *type = curl_get_text(easy, CURLINFO_CONTENT_TYPE);
    long http = curl_get_long(easy, CURLINFO_RESPONSE_CODE);

    return error_set(err, DIBS_DAEMON_UNREACHABLE,
                     "what answered at '%.150s' is not a dibs daemon: HTTP status %ld, %.60s%s; "
                     "see that the URL is right",
                     http_where(c), http, type != NULL ? type : "no content type",
                     http >= 300 && http < 400 ? " (redirects are not followed)" : "");
}

json_t *http_json(const struct buf *body, dibs_status *status)
{
    json_t *json = json_loadb(body->data != NULL ? body->data : "", body->len, 0, NULL);
    const json_t *success = json_object_get(json, "success");
    const char *error = json_string_value(json_object_get(json, "error"));

    if (!json_is_boolean(success) || (json_is_false(success) && error == NULL)) {
        json_decref(json);
        return NULL;
    }
    *status = json_is_true(success) ? DIBS_OK : dibs_status_from_name(error);
    return json;
}

/* ---- a request ------------------------------------------------------------------------------- */

/* may_repeat: whether a second attempt can do no harm and may do better. */
static bool may_repeat(const struct api_request *in, const struct exchange *x)
{
    if (x->code == CURLE_OUT_OF_MEMORY || x->code == CURLE_WRITE_ERROR ||
        x->code == CURLE_OPERATION_TIMEDOUT || x->code == CURLE_ABORTED_BY_CALLBACK)
        return false;
    if (str_starts(in->path, "/api/poll")) /* hands something out, though it is a GET */
        return !x->sent;
    return !x->sent || is_read(in) || in->idempotency_key != NULL;
}

static dibs_status http_call(struct client *c, const struct api_request *in, int64_t wait_ms,
                             struct client_answer *out, struct dibs_error *err)
{
    int64_t standard_ms = c->url != NULL ? URL_ANSWER_MS : SOCKET_ANSWER_MS;
    int64_t patience_ms = c->patience_ms > 0 ? c->patience_ms : standard_ms;
    struct exchange x = {.answer_ms = (long)(patience_ms + wait_ms)};
    struct client_answer answer = {0};
    dibs_status status = DIBS_OK;

    if (in->idempotency_key != NULL && !is_header_text(in->idempotency_key))
        return error_set(err, DIBS_INVALID_REQUEST,
                         "an idempotency key that goes to a daemon has no control characters and "
                         "no blank at its ends");
    buf_init(&x.body, ANSWER_BYTES_MAX);
    exchange(c, in, &x);
    if (x.code == CURLE_COULDNT_CONNECT && c->socket_path != NULL) {
        buf_release(&x.body);
        status = client_go_in_process(c, (struct dibs_strings){0}, err);
        return status == DIBS_OK ? c->way->call(c, in, wait_ms, out, err) : status;
    }
    if (x.code != CURLE_OK && may_repeat(in, &x)) {
        poll(NULL, 0, PAUSE_MS);
        exchange(c, in, &x);
    }
    if (x.code == CURLE_OK) {
        answer.http = (int)x.http;
        answer.json = http_json(&x.body, &answer.status);
        status = answer.json != NULL ? DIBS_OK : http_foreign(c, c->link->easy, err);
    } else {
        status = explain(c, in, &x, err);
    }
    if (status == DIBS_OK)
        *out = answer;
    buf_release(&x.body);
    return status;
}

const struct way way_http = {.call = http_call, .stream = http_stream};
