/* SPDX-License-Identifier: MIT */
/*
 * http.c: assembles requests from bytes that come in pieces of any size.
 *
 *     START --> HEAD --> LENGTH ------------------------------> READY --http_next--> START
 *               |  |       (Content-Length)                      ^
 *               |  +--> SIZE -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *               |         (chunked; the last: SIZE_LF -> LAST_CR -> LAST_LF -> READY)
 *               +--> REFUSED, from everywhere
 *
 *   1. Each byte is looked at once and copied once; the outcome does not depend on the pieces.
 *   2. A request is two blocks: head texts with the array of headers behind them, and the body.
 *      Before its first byte and after http_next there is nothing but the struct.
 *   3. A body that is too large is refused when it is announced, and memory for it follows what
 *      has come in, not what was promised.
 *   4. Chunks are one to eight hex digits and CR LF: no extensions, no trailers. They are read
 *      here, as the parser library tells nobody what it has passed over in between.
 *
 * One empty line in front of a request is forgiven, as RFC 9112 asks for: some callers end a body
 * with a CR LF too many. A second one is not.
 */
#include "http.h"

#include "http_head.h"

#define HEAD_STEP_BYTES 1024     /* first room for a head that comes in pieces */
#define BODY_AT_ONCE_BYTES 65536 /* room given to a body before any of it has come */
#define CHUNKED_STEP_BYTES 4096  /* the same, when its length is not known */
#define CHUNK_DIGITS_MAX 8

enum phase {
    START,
    BLANK_LF, /* after the CR of an empty line in front of a request */
    HEAD,
    LENGTH,
    SIZE,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    LAST_CR,
    LAST_LF,
    READY,
    REFUSED,
};

struct http {
    uint8_t phase;
    bool blank_seen;
    bool wants_continue;
    uint8_t digits; /* of the size of a chunk so far */
    uint32_t head_room, body_room;
    uint32_t left; /* bytes of the body, or of this chunk, still to come */
    struct http_scan scan;
    char *head;
    char *body;
    struct http_refusal refusal;
    struct http_request request;
};

struct http *http_new(void)
{
    return mem_alloc(sizeof(struct http));
}

/* release: forgets the request and what it was made of. */
static void release(struct http *h)
{
    mem_free(h->head);
    mem_free(h->body);
    *h = (struct http){0};
}

void http_free(struct http *h)
{
    if (h == NULL)
        return;
    release(h);
    mem_free(h);
}

static bool refuse(struct http *h, int status, const char *text)
{
    release(h);
    h->phase = REFUSED;
    h->refusal = (struct http_refusal){.status = status, .text = text};
    return false;
}

/* ---- the head ---- */

/* keep_head: appends bytes to the head; `extra` more bytes will be needed behind it. */
static bool keep_head(struct http *h, const char *bytes, size_t count, size_t extra)
{
    size_t had = h->scan.bytes - count;
    size_t needed = h->scan.bytes + extra;
    if (needed > h->head_room) {
        /* the last piece (extra > 0) gets what it needs, an earlier one room to grow */
        size_t room = needed;
        if (extra == 0)
            room = needed < HEAD_STEP_BYTES / 2 ? HEAD_STEP_BYTES : 2 * needed;
        char *head = mem_grow(h->head, room);
        if (head == NULL)
            return refuse(h, 503, "out of memory");
        h->head = head;
        h->head_room = (uint32_t)room;
    }
    memcpy(h->head + had, bytes, count);
    return true;
}

/* begin_body: the head is understood; what comes next? */
static void begin_body(struct http *h, const struct http_plan *plan)
{
    h->phase = plan->chunked ? SIZE : plan->length > 0 ? LENGTH : READY;
    h->left = (uint32_t)plan->length;
    h->wants_continue = plan->expects_continue && h->phase != READY;
}

static void finish_head(struct http *h, const char *bytes, size_t count)
{
    const size_t align = _Alignof(struct http_header);
    size_t header_count = h->scan.lines - 2u; /* without request line and empty line */
    size_t padding = align - h->scan.bytes % align;
    size_t extra = padding + header_count * sizeof(struct http_header);
    if (!keep_head(h, bytes, count, extra))
        return;
    struct http_header *headers = (void *)(h->head + h->scan.bytes + padding);
    struct http_plan plan;
    struct http_refusal why = {0};
    if (http_head_read(h->head, h->scan.bytes, headers, header_count, &h->request, &plan, &why))
        begin_body(h, &plan);
    else
        refuse(h, why.status, why.text);
}

static size_t take_head(struct http *h, const char *bytes, size_t count)
{
    bool done = false;
    struct http_refusal why = {0};
    size_t used = http_scan(&h->scan, bytes, count, &done, &why);
    if (why.status != 0)
        refuse(h, why.status, why.text);
    else if (done)
        finish_head(h, bytes, used);
    else
        keep_head(h, bytes, used, 0);
    return used;
}

/* take_blank: an empty line in front of the request, or its first byte. */
static size_t take_blank(struct http *h, char c)
{
    if (h->phase == BLANK_LF) {
        h->phase = START;
        if (c != '\n')
            refuse(h, 400, "there is a carriage return in front of the request");
        return 1;
    }
    if (c == '\r' && !h->blank_seen) {
        h->blank_seen = true;
        h->phase = BLANK_LF;
        return 1;
    }
    h->phase = HEAD;
    return 0;
}

/* ---- the body ---- */

/* keep_body: appends to the body, which will have at least `expected` bytes. */
static bool keep_body(struct http *h, const char *bytes, size_t count, size_t expected)
{
    size_t had = h->request.body_bytes;
    size_t needed = had + count + 1;
    if (needed > h->body_room) {
        size_t room = 2 * needed < CHUNKED_STEP_BYTES ? CHUNKED_STEP_BYTES : 2 * needed;
        if (expected > 0)
            room = expected <= BODY_AT_ONCE_BYTES || room > expected ? expected + 1 : room;
        char *body = mem_grow(h->body, room);
        if (body == NULL)
            return refuse(h, 503, "out of memory");
        h->body = body;
        h->body_room = (uint32_t)room;
    }
    memcpy(h->body + had, bytes, count);
    h->body[had + count] = '\0';
    h->request.body = h->body;
    h->request.body_bytes = had + count;
    return true;
}

/* take_data: bytes of the body itself, up to the end of it or of the chunk. */
static size_t take_data(struct http *h, const char *bytes, size_t count, size_t expected,
                        enum phase next)
{
    size_t n = count < h->left ? count : h->left;
    if (keep_body(h, bytes, n, expected)) {
        h->left -= (uint32_t)n;
        if (h->left == 0)
            h->phase = (uint8_t)next;
    }
    return n;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* take_size: one byte of the line in front of a chunk. */
static void take_size(struct http *h, char c)
{
    int value = hex_value(c);
    if (value >= 0 && h->digits < CHUNK_DIGITS_MAX) {
        h->left = h->left * 16 + (uint32_t)value; /* eight digits always fit */
        h->digits++;
    } else if (c == '\r' && h->digits > 0) {
        h->phase = SIZE_LF;
    } else {
        refuse(h, 400, "the size of a chunk is not one to eight hex digits");
    }
}

/* begin_chunk: its size is known. */
static void begin_chunk(struct http *h)
{
    if (h->left > BODY_BYTES_MAX - h->request.body_bytes) {
        refuse(h, 413, "the body is too large");
        return;
    }
    h->phase = h->left > 0 ? DATA : LAST_CR;
    h->digits = 0;
}

/* take_mark: one byte that must be there, CR or LF. */
static void take_mark(struct http *h, char c)
{
    bool is_lf = h->phase == SIZE_LF || h->phase == DATA_LF || h->phase == LAST_LF;
    if (c != (is_lf ? '\n' : '\r')) {
        refuse(h, 400,
               h->phase == LAST_CR ? "trailers are not taken" : "a chunk does not end with CR LF");
        return;
    }
    switch ((enum phase)h->phase) {
    case SIZE_LF: begin_chunk(h); break;
    case DATA_CR: h->phase = DATA_LF; break;
    case DATA_LF: h->phase = SIZE; break;
    case LAST_CR: h->phase = LAST_LF; break;
    default: h->phase = READY; break;
    }
}

static size_t take_body(struct http *h, const char *bytes, size_t count)
{
    h->wants_continue = false; /* it has not waited for our word */
    switch ((enum phase)h->phase) {
    case LENGTH: return take_data(h, bytes, count, h->request.body_bytes + h->left, READY);
    case DATA: return take_data(h, bytes, count, 0, DATA_CR);
    case SIZE: take_size(h, bytes[0]); return 1;
    default: take_mark(h, bytes[0]); return 1;
    }
}

/* ---- from outside ---- */

enum http_result http_feed(struct http *h, const char *bytes, size_t count, size_t *used)
{
    size_t at = 0;
    while (at < count && h->phase < READY) {
        if (h->phase < HEAD)
            at += take_blank(h, bytes[at]);
        else if (h->phase == HEAD)
            at += take_head(h, bytes + at, count - at);
        else
            at += take_body(h, bytes + at, count - at);
    }
    *used = at;
    if (h->phase < READY)
        return HTTP_MORE;
    return h->phase == READY ? HTTP_REQUEST : HTTP_REFUSED;
}

const struct http_request *http_request(const struct http *h)
{
    return &h->request;
}

void http_next(struct http *h)
{
    release(h);
}

bool http_wants_continue(struct http *h)
{
    bool wants = h->wants_continue;
    h->wants_continue = false;
    return wants;
}

bool http_is_idle(const struct http *h)
{
    return h->phase == START;
}

struct http_refusal http_refusal(const struct http *h)
{
    return h->refusal;
}

const char *http_header(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (strcmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return NULL;
}

static const struct {
    int status;
    const char *text;
} statuses[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_text(int status)
{
    for (size_t i = 0; i < COUNT_OF(statuses); i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "Unknown";
}
