/* SPDX-License-Identifier: MIT */
/*
 * asset.c: serves the page and what belongs to it out of the program itself.
 *
 * asset_decide() reads the request and says what to send, asset_answer() sends it. A caller that
 * takes gzip is given the form that was made at build time; each form has a strong ETag of its own,
 * so that a cache cannot mix them up, and everything must be asked for again (no-cache), which
 * costs a 304 while the program is the same.
 *
 *   1. Every answer carries the policies below, also a 304: a page of ours runs only scripts of
 *      ours, talks only to us, and is framed by nobody. (nosniff is on every answer of a
 *      connection.)
 *   2. A quality of 0 means "not this one", also as "*;q=0".
 */
#include "asset.h"

#include <strings.h>

#include "base/str.h"

#define POLICIES                                                                                   \
    "Cache-Control: no-cache\r\n"                                                                  \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "                    \
    "frame-ancestors 'none'\r\n"                                                                   \
    "Referrer-Policy: no-referrer\r\n"                                                             \
    "Cross-Origin-Resource-Policy: same-origin\r\n"                                                \
    "Cross-Origin-Opener-Policy: same-origin\r\n"

static const struct asset *find(const char *path)
{
    const char *name = str_eq(path, "/") ? "/index.html" : path;
    for (size_t i = 0; i < asset_files.count; i++) {
        if (str_eq(asset_files.items[i].path, name))
            return &asset_files.items[i];
    }
    return NULL;
}

bool asset_exists(const char *path)
{
    return find(path) != NULL;
}

/* ---- which form ------------------------------------------------------------------------------ */

#define BLANKS " \t"

/* thousandths: of "0.25", "1", "0."; -1 when it is no quality. */
static int thousandths(const char *text, size_t bytes)
{
    int value = 0, weight = 100;
    if (bytes == 0 || (text[0] != '0' && text[0] != '1') || (bytes > 1 && text[1] != '.'))
        return -1;
    value = (text[0] - '0') * 1000;
    for (size_t i = 2; i < bytes; i++, weight /= 10) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value += (text[i] - '0') * weight;
    }
    return value > 1000 ? 1000 : value;
}

/* quality_of: thousandths behind "q=" in the parameters of a coding; 1000 without any; -1 when they
 * cannot be read. */
static int quality_of(const char *text, size_t bytes)
{
    const char *at = memchr(text, ';', bytes), *end = text + bytes;
    if (at == NULL)
        return 1000;
    at += 1 + strspn(at + 1, BLANKS);
    if (end - at < 3 || (*at != 'q' && *at != 'Q') || at[1] != '=')
        return -1;
    return thousandths(at + 2, (size_t)(end - at - 2));
}

static bool is_coding(const char *text, size_t bytes, const char *coding)
{
    size_t length = strcspn(text, ";" BLANKS);
    length = length < bytes ? length : bytes;
    return length == strlen(coding) && strncasecmp(text, coding, length) == 0;
}

/* wants_gzip: whether an Accept-Encoding (NULL: none) takes gzip, and at least as gladly as what is
 * not encoded at all. */
static bool wants_gzip(const char *accept)
{
    int gzip = -1, any = -1, identity = -1;
    for (const char *at = accept; at != NULL && *at != '\0';) {
        at += strspn(at, "," BLANKS);
        size_t next = strcspn(at, ","), bytes = next;
        while (bytes > 0 && strchr(BLANKS, at[bytes - 1]) != NULL)
            bytes--;
        int quality = quality_of(at, bytes);
        if (is_coding(at, bytes, "gzip") || is_coding(at, bytes, "x-gzip"))
            gzip = quality;
        else if (is_coding(at, bytes, "identity"))
            identity = quality;
        else if (is_coding(at, bytes, "*"))
            any = quality;
        at += next;
    }
    int chosen = gzip >= 0 ? gzip : any;
    return chosen > 0 && chosen >= identity;
}

/* names_etag: whether an If-None-Match names this ETag; a weak one counts as well. */
static bool names_etag(const char *list, const char *etag)
{
    size_t length = strlen(etag);
    for (const char *at = list; at != NULL && *at != '\0'; at++) {
        at += strspn(at, "," BLANKS);
        if (*at == '*')
            return true;
        if (str_starts(at, "W/"))
            at += 2;
        if (strncmp(at, etag, length) == 0 && strchr("," BLANKS, at[length]) != NULL)
            return true;
        at += *at == '"' ? 1 + strcspn(at + 1, "\"") : strcspn(at, ",");
        if (*at == '\0')
            break;
    }
    return false;
}

/* ---- the answer ------------------------------------------------------------------------------ */

bool asset_decide(const struct http_request *r, struct asset_reply *out)
{
    const struct asset *asset = find(r->path);
    if (asset == NULL)
        return false;
    *out = (struct asset_reply){.content_type = asset->content_type};
    bool has_gzip = asset->gzip.data != NULL;
    bool gzip = has_gzip && wants_gzip(http_header(r, "accept-encoding"));
    const struct asset_form *form = gzip ? &asset->gzip : &asset->plain;
    bool same = names_etag(http_header(r, "if-none-match"), form->etag);
    out->status = same ? 304 : 200;
    out->form = same ? NULL : form;
    snprintf(out->headers, sizeof out->headers, "ETag: %s\r\n%s%s" POLICIES, form->etag,
             has_gzip ? "Vary: Accept-Encoding\r\n" : "",
             gzip && !same ? "Content-Encoding: gzip\r\n" : "");
    return true;
}

bool asset_answer(struct conn *c, const struct http_request *r)
{
    struct asset_reply reply = {0};
    if (!asset_decide(r, &reply))
        return false;
    struct answer answer = {.status = reply.status,
                            .content_type = reply.content_type,
                            .fixed = reply.form != NULL ? (const char *)reply.form->data : "",
                            .fixed_bytes = reply.form != NULL ? reply.form->bytes : 0,
                            .headers = reply.headers};
    conn_answer(c, &answer);
    return true;
}
