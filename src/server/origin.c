/* SPDX-License-Identifier: MIT */
/*
 * origin.c: where a request was addressed to and where it came from.
 *
 *   1. Over TCP only names that are ours are answered: a name that an attacker lets point at
 *      127.0.0.1 is not one of them, so the browser's own rules protect us again. The unix socket
 *      cannot be reached by a name.
 *   2. A browser says in Origin which page sent a request. There is no other page than ours that
 *      may. Programs send no Origin.
 *   3. A browser that follows a link sends no Origin, but Sec-Fetch-Site; a page may be opened so,
 *      nothing else.
 *
 * What is not understood is refused: there is one spelling of a good Host.
 */
#include "origin.h"

#include <strings.h>

#include "base/str.h"

/* ---- our names ------------------------------------------------------------------------------- */

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(names[i]);
    mem_free(names);
}

/* An IPv6 address stands in brackets in a Host header, and need not when we are told of it. */
static char *as_in_header(const char *name)
{
    char bracketed[256];
    if (strchr(name, ':') == NULL || name[0] == '[')
        return mem_copy(name);
    snprintf(bracketed, sizeof bracketed, "[%.250s]", name);
    return mem_copy(bracketed);
}

bool origin_set_hosts(struct origin_hosts *h, struct dibs_strings names)
{
    char **copies = mem_alloc((names.count + 1) * sizeof *copies);
    if (copies == NULL)
        return false;
    for (size_t i = 0; i < names.count; i++) {
        copies[i] = as_in_header(names.items[i]);
        if (copies[i] == NULL) {
            free_names(copies, i);
            return false;
        }
    }
    origin_release(h);
    *h = (struct origin_hosts){.names = copies, .count = names.count};
    return true;
}

void origin_release(struct origin_hosts *h)
{
    free_names(h->names, h->count);
    *h = (struct origin_hosts){0};
}

/* ---- Host ------------------------------------------------------------------------------------ */

static bool is_port(const char *text)
{
    int64_t port = 0;
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 5 && text[digits] == '\0' && str_to_int(text, &port) &&
           port > 0 && port <= 65535;
}

/* name_bytes: how much of a Host is the name; 0 when what follows it is no port. */
static size_t name_bytes(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : host + strcspn(host, ":");
    if (end == NULL)
        return 0;
    end += *end == ']';
    return *end == '\0' || (*end == ':' && is_port(end + 1)) ? (size_t)(end - host) : 0;
}

static bool is_called(const char *name, const char *host, size_t bytes)
{
    return strlen(name) == bytes && strncasecmp(name, host, bytes) == 0;
}

static bool is_ours(const struct origin_hosts *h, const char *host)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};
    size_t bytes = name_bytes(host);
    for (size_t i = 0; bytes > 0 && i < COUNT_OF(loopback); i++)
        if (is_called(loopback[i], host, bytes))
            return true;
    for (size_t i = 0; bytes > 0 && i < h->count; i++)
        if (is_called(h->names[i], host, bytes))
            return true;
    return false;
}

static dibs_status check_host(const struct origin_hosts *h, const struct http_request *r,
                              struct dibs_error *err)
{
    if (r->host == NULL)
        return error_set(err, DIBS_MISDIRECTED_REQUEST, "the request does not say its Host");
    if (is_ours(h, r->host))
        return DIBS_OK;
    return error_set(err, DIBS_MISDIRECTED_REQUEST,
                     "host '%.200s' is not a name of this daemon; allow it with: serve --host NAME",
                     r->host);
}

/* ---- Origin and Sec-Fetch-Site --------------------------------------------------------------- */

/* is_same: "http://localhost:7117" sent to "localhost:7117". */
static bool is_same(const char *origin, const char *host)
{
    const char *rest = str_starts(origin, "http://")    ? origin + 7
                       : str_starts(origin, "https://") ? origin + 8
                                                        : NULL;
    return rest != NULL && host != NULL && str_eq_nocase(rest, host);
}

/* opens_page: a browser shows the page in a tab of its own. */
static bool opens_page(const struct http_request *r)
{
    bool navigates = false, document = false;
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *header = &r->headers[i];
        navigates |= str_eq(header->name, "sec-fetch-mode") && str_eq(header->value, "navigate");
        document |= str_eq(header->name, "sec-fetch-dest") && str_eq(header->value, "document");
    }
    return navigates && document && str_eq(r->method, "GET");
}

static dibs_status check_sender(const struct http_request *r, bool is_page, struct dibs_error *err)
{
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *header = &r->headers[i];
        if (str_eq(header->name, "origin") && !is_same(header->value, r->host))
            return error_set(err, DIBS_FORBIDDEN, "requests by pages of other sites are refused");
        if (str_eq(header->name, "sec-fetch-site") && !str_eq(header->value, "same-origin") &&
            !str_eq(header->value, "none") && !(is_page && opens_page(r)))
            return error_set(err, DIBS_FORBIDDEN, "requests by pages of other sites are refused");
    }
    return DIBS_OK;
}

dibs_status origin_check(const struct origin_hosts *h, const struct http_request *r,
                         enum conn_kind kind, bool is_page, struct dibs_error *err)
{
    dibs_status s = kind == CONN_UNIX ? DIBS_OK : check_host(h, r, err);
    return s == DIBS_OK ? check_sender(r, is_page, err) : s;
}

/* ---- Content-Type ---------------------------------------------------------------------------- */

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

/* is_good_parameter: JSON is UTF-8; all other parameters mean nothing to us. */
static bool is_good_parameter(const char *text, size_t bytes)
{
    static const char *const spellings[] = {"charset=utf-8", "charset=\"utf-8\"", "charset=utf8"};
    if (bytes < 8 || strncasecmp(text, "charset=", 8) != 0)
        return true;
    for (size_t i = 0; i < COUNT_OF(spellings); i++)
        if (is_called(spellings[i], text, bytes))
            return true;
    return false;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t length = sizeof json - 1;
    if (strncasecmp(type, json, length) != 0)
        return false;
    const char *rest = skip_blanks(type + length);
    while (*rest == ';') {
        rest = skip_blanks(rest + 1);
        size_t bytes = strcspn(rest, "; \t");
        if (!is_good_parameter(rest, bytes))
            return false;
        rest = skip_blanks(rest + bytes);
    }
    return *rest == '\0';
}

dibs_status origin_check_type(const struct http_request *r, struct dibs_error *err)
{
    size_t told = 0, good = 0;
    if (str_eq(r->method, "GET") || str_eq(r->method, "HEAD") || r->body_bytes == 0)
        return DIBS_OK;
    for (size_t i = 0; i < r->header_count; i++) {
        bool is_type = str_eq(r->headers[i].name, "content-type");
        told += is_type;
        good += is_type && is_json(r->headers[i].value);
    }
    if (told == 1 && good == 1)
        return DIBS_OK;
    return error_set(err, DIBS_UNSUPPORTED_MEDIA_TYPE,
                     "a request with a body must say Content-Type: application/json");
}
