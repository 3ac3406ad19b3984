/* SPDX-License-Identifier: MIT */
/*
 * http_check.c: feeds bytes to server/http.c in any pieces and holds it to its promises.
 *
 * Used by its unit tests, by the mutated requests of http_random and by fuzz/http.c, which has no
 * cmocka: a broken promise prints what it was and aborts.
 */
#include "http_check.h"

#include "server/http.h"

#define CANARY "GET /canary HTTP/1.1\r\nHost: h\r\n\r\n"
#define TRANSCRIPT_BYTES_MAX (64 * 1024 * 1024)

static void promise(bool kept, const char *what)
{
    if (kept)
        return;
    fprintf(stderr, "http: broken promise: %s\n", what);
    abort();
}

static bool is_clean(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static bool is_lower(const char *text)
{
    for (; *text != '\0'; text++)
        if ((*text >= 'A' && *text <= 'Z') || *text <= ' ' || *text == ':' || *text >= 0x7f)
            return false;
    return true;
}

static void check_request(const struct http_request *r)
{
    promise(r->path[0] == '/', "a path begins with a slash");
    promise(is_clean(r->path) && is_clean(r->query), "no control characters in a target");
    promise(strpbrk(r->path, " ?#") == NULL, "a path has no query, blank or fragment");
    promise(strpbrk(r->query, " #") == NULL, "a query has no blank or fragment");
    promise(strlen(r->path) + strlen(r->query) <= HTTP_URL_BYTES_MAX, "a target has a limit");
    promise(r->host != NULL || r->http10, "HTTP/1.1 has a host");
    promise(r->header_count <= HTTP_HEADERS_MAX, "headers have a limit");
    promise(r->body_bytes <= BODY_BYTES_MAX, "a body has a limit");
    promise(r->body[r->body_bytes] == '\0', "a NUL stands behind the body");
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *h = &r->headers[i];
        size_t bytes = strlen(h->value);
        promise(h->name[0] != '\0' && is_lower(h->name), "names are tokens in lower case");
        promise(is_clean(h->value), "no control characters in a value");
        promise(bytes == 0 || (h->value[0] != ' ' && h->value[bytes - 1] != ' '),
                "no blanks around a value");
    }
}

static void write_request(struct buf *out, const struct http_request *r)
{
    buf_printf(out, "%s %s?%s host=%s %s %s\n", r->method, r->path, r->query,
               r->host != NULL ? r->host : "-", r->keep_alive ? "keep" : "close",
               r->http10 ? "1.0" : "1.1");
    for (size_t i = 0; i < r->header_count; i++)
        buf_printf(out, "%s: %s\n", r->headers[i].name, r->headers[i].value);
    buf_printf(out, "[%zu]", r->body_bytes);
    for (size_t i = 0; i < r->body_bytes; i++)
        buf_char(out, r->body[i] != '\0' ? r->body[i] : '\1'); /* a text has no NUL */
    buf_char(out, '\n');
}

/* feed_piece: false when the stream is refused. */
static bool feed_piece(struct http *h, const char *bytes, size_t count, struct buf *out)
{
    enum http_result result = HTTP_MORE;
    do {
        size_t used = 0;
        result = http_feed(h, bytes, count, &used);
        promise(used <= count, "no more is used than there is");
        promise(result != HTTP_MORE || used == count, "all is used when more is wanted");
        bytes += used;
        count -= used;
        if (result == HTTP_REQUEST) {
            check_request(http_request(h));
            write_request(out, http_request(h));
            http_next(h);
            promise(http_is_idle(h), "nothing is begun after http_next");
        }
    } while (result == HTTP_REQUEST && count > 0);
    return result != HTTP_REFUSED;
}

char *http_transcript(const void *bytes, size_t count, struct http_cut cut)
{
    struct buf out;
    buf_init(&out, TRANSCRIPT_BYTES_MAX);
    struct http *h = http_new();
    promise(h != NULL, "there is memory");
    bool fine = true;
    for (size_t at = 0; at < count && fine;) {
        size_t piece = at == 0 && cut.first > 0 ? cut.first : cut.step;
        if (piece == 0 || piece > count - at)
            piece = count - at;
        char *copy = mem_grow(NULL, piece);
        promise(copy != NULL, "there is memory");
        memcpy(copy, (const char *)bytes + at, piece);
        fine = feed_piece(h, copy, piece, &out);
        mem_free(copy);
        at += piece;
    }
    if (fine)
        buf_text(&out, http_is_idle(h) ? "idle" : "more");
    else
        buf_printf(&out, "refused %d", http_refusal(h).status);
    http_free(h);
    char *text = buf_detach(&out);
    promise(text != NULL, "there is memory for the transcript");
    return text;
}

void http_check(const void *bytes, size_t count)
{
    static const struct http_cut cuts[] = {{0, 1}, {0, 2}, {0, 7}, {1, 0}, {3, 64}, {0, 1000}};
    char *whole = http_transcript(bytes, count, (struct http_cut){0});
    for (size_t i = 0; i < COUNT_OF(cuts) + 3; i++) {
        struct http_cut cut =
            i < COUNT_OF(cuts) ? cuts[i]
                               : (struct http_cut){.first = count * (i - COUNT_OF(cuts) + 1) / 4};
        char *again = http_transcript(bytes, count, cut);
        if (strcmp(whole, again) != 0)
            fprintf(stderr, "whole: %s\ncut %zu %zu: %s\n", whole, cut.first, cut.step, again);
        promise(strcmp(whole, again) == 0, "the cut makes no difference");
        mem_free(again);
    }
    mem_free(whole);
}

bool http_is_refused(const char *front, const void *bytes, size_t count, const char *back,
                     int status)
{
    char expected[32];
    snprintf(expected, sizeof expected, "refused %d", status);
    struct buf b;
    buf_init(&b, TRANSCRIPT_BYTES_MAX);
    buf_text(&b, front);
    buf_append(&b, bytes, count);
    buf_text(&b, back);
    buf_text(&b, CANARY);
    promise(buf_ok(&b), "there is memory");
    bool fine = true;
    for (size_t cut = 0; cut <= b.len && fine; cut++) {
        /* 0: byte by byte; the last: whole */
        struct http_cut how = {.first = cut, .step = cut == 0 ? 1 : 0};
        char *text = http_transcript(b.data, b.len, how);
        fine = strcmp(text, expected) == 0;
        if (!fine)
            fprintf(stderr, "'%s' cut at %zu: '%s', not '%s'\n", b.data, cut, text, expected);
        mem_free(text);
    }
    buf_release(&b);
    return fine;
}
