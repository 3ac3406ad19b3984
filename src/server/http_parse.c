/* SPDX-License-Identifier: MIT */
/*
 * http_parse.c: the one file that knows the parser library: llhttp, or where the system has none,
 * http_parser, from which it descends.
 *
 * The library is given one whole head at a time and is told that no body follows, so it keeps no
 * state between two calls and never sees the bytes of a body: their framing is http.c's, after
 * http_head.c has seen that the library understood the same as we did.
 *
 *   1. Callbacks only note where a token is. They accept it in pieces.
 *   2. An Upgrade header or CONNECT makes the library stop after the head. That is where it ends
 *      anyway, so to us it means nothing.
 */
#include "http_parse.h"

#ifdef DIBS_WITH_LLHTTP
#include <llhttp.h>
typedef llhttp_t parser;
typedef llhttp_settings_t parser_settings;
#else
#include <http_parser.h>
typedef http_parser parser;
typedef http_parser_settings parser_settings;
#define F_CONTENT_LENGTH F_CONTENTLENGTH
#endif

struct reading {
    const char *head;
    struct http_field *fields;
    size_t fields_max;
    struct http_parsed *out;
    bool in_value; /* the last token was (a piece of) a value */
    bool complete;
};

/* extend: the token grows to the end of the piece that was found. */
static void extend(struct http_token *token, const char *head, const char *at, size_t bytes)
{
    if (token->bytes == 0)
        token->at = (uint16_t)(at - head);
    token->bytes = (uint16_t)(at + bytes - head - token->at);
}

static int on_url(parser *p, const char *at, size_t bytes)
{
    struct reading *r = p->data;
    extend(&r->out->target, r->head, at, bytes);
    return 0;
}

static int on_header_field(parser *p, const char *at, size_t bytes)
{
    struct reading *r = p->data;
    if (r->out->count == 0 || r->in_value) {
        if (r->out->count == r->fields_max)
            return -1;
        r->fields[r->out->count++] = (struct http_field){0};
        r->in_value = false;
    }
    struct http_field *field = &r->fields[r->out->count - 1];
    extend(&field->name, r->head, at, bytes);
    /* where an empty value would be, of which not every version tells */
    field->value.at = (uint16_t)(field->name.at + field->name.bytes + 1);
    return 0;
}

static int on_header_value(parser *p, const char *at, size_t bytes)
{
    struct reading *r = p->data;
    if (r->out->count == 0)
        return -1;
    r->in_value = true;
    if (bytes > 0)
        extend(&r->fields[r->out->count - 1].value, r->head, at, bytes);
    return 0;
}

/* on_header_value_complete: llhttp keeps silent about a value without a byte. */
#ifdef DIBS_WITH_LLHTTP
static int on_header_value_complete(parser *p)
{
    return on_header_value(p, NULL, 0);
}
#endif

/* on_headers_complete: 1 tells the library that there is no body. */
static int on_headers_complete(parser *p)
{
    struct reading *r = p->data;
    struct http_parsed *out = r->out;
    out->major = p->http_major;
    out->minor = p->http_minor;
    out->chunked = (p->flags & F_CHUNKED) != 0;
    out->length = (p->flags & F_CONTENT_LENGTH) != 0 ? p->content_length : 0;
    r->complete = true;
    return 1;
}

static const parser_settings settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
#ifdef DIBS_WITH_LLHTTP
    .on_header_value_complete = on_header_value_complete,
#endif
    .on_headers_complete = on_headers_complete,
};

/* run: true when the library has taken in every byte without a complaint. */
static bool run(struct reading *r, size_t bytes)
{
    parser p;
#ifdef DIBS_WITH_LLHTTP
    llhttp_init(&p, HTTP_REQUEST, &settings);
    p.data = r;
    llhttp_errno_t result = llhttp_execute(&p, r->head, bytes);
    if (result == HPE_PAUSED_UPGRADE)
        return llhttp_get_error_pos(&p) == r->head + bytes;
    return result == HPE_OK;
#else
    http_parser_init(&p, HTTP_REQUEST);
    p.data = r;
    size_t used = http_parser_execute(&p, &settings, r->head, bytes);
    return used == bytes && HTTP_PARSER_ERRNO(&p) == HPE_OK;
#endif
}

bool http_parse(const char *head, size_t bytes, struct http_field *fields, size_t fields_max,
                struct http_parsed *out)
{
    *out = (struct http_parsed){0};
    if (bytes > UINT16_MAX)
        return false;
    struct reading r = {.head = head, .fields = fields, .fields_max = fields_max, .out = out};
    return run(&r, bytes) && r.complete;
}
