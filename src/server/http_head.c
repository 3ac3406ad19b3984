/* SPDX-License-Identifier: MIT */
/*
 * http_head.c: what a head means, once http_scan.c has found it to be made of clean lines.
 *
 * The parser library splits it into tokens; here each token is held against the lines as we see
 * them, so a head on which the library and we disagree is refused, not interpreted.
 *
 *   1. METHOD SP /target SP HTTP/1.x, one blank each. No other form of target, no '#'.
 *   2. A header is a token, a colon and a value, and together the headers are all there is between
 *      the request line and the empty line.
 *   3. Content-Length and Transfer-Encoding say exactly one thing, in the plainest form: digits
 *      without a leading zero, or "chunked"; never both, never twice.
 *   4. What decides who asks for what (Host, Authorization ...) is not sent twice.
 *
 * An Upgrade header is not looked at: we never switch protocols, which is a permitted answer to it.
 * Percent-encoding in the target is left to those who know the paths.
 */
#include "http_head.h"

#include <strings.h>

#include "http_parse.h"

/* More digits than these are no length but an attempt to overflow somebody's integer. */
#define LENGTH_DIGITS_MAX 18

struct reader {
    char *head;
    size_t bytes;
    struct http_request *out;
    struct http_plan *plan;
    struct http_refusal *why;
    unsigned seen; /* bits of enum known */
    bool close, keep_alive;
    uint64_t length;
};

static bool refuse(struct reader *r, int status, const char *text)
{
    *r->why = (struct http_refusal){.status = status, .text = text};
    return false;
}

/* ---- the request line ---- */

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"};

static const char *known_method(const char *text, size_t bytes)
{
    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (strlen(methods[i]) == bytes && memcmp(methods[i], text, bytes) == 0)
            return methods[i];
    return NULL;
}

/* What may be in a token, in lower case; 0: may not. */
static const unsigned char token_lower[256] = {
    ['!'] = '!', ['#'] = '#', ['$'] = '$', ['%'] = '%', ['&'] = '&', ['\''] = '\'', ['*'] = '*',
    ['+'] = '+', ['-'] = '-', ['.'] = '.', ['^'] = '^', ['_'] = '_', ['`'] = '`',   ['|'] = '|',
    ['~'] = '~', ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4',   ['5'] = '5',
    ['6'] = '6', ['7'] = '7', ['8'] = '8', ['9'] = '9', ['A'] = 'a', ['B'] = 'b',   ['C'] = 'c',
    ['D'] = 'd', ['E'] = 'e', ['F'] = 'f', ['G'] = 'g', ['H'] = 'h', ['I'] = 'i',   ['J'] = 'j',
    ['K'] = 'k', ['L'] = 'l', ['M'] = 'm', ['N'] = 'n', ['O'] = 'o', ['P'] = 'p',   ['Q'] = 'q',
    ['R'] = 'r', ['S'] = 's', ['T'] = 't', ['U'] = 'u', ['V'] = 'v', ['W'] = 'w',   ['X'] = 'x',
    ['Y'] = 'y', ['Z'] = 'z', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd',   ['e'] = 'e',
    ['f'] = 'f', ['g'] = 'g', ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k',   ['l'] = 'l',
    ['m'] = 'm', ['n'] = 'n', ['o'] = 'o', ['p'] = 'p', ['q'] = 'q', ['r'] = 'r',   ['s'] = 's',
    ['t'] = 't', ['u'] = 'u', ['v'] = 'v', ['w'] = 'w', ['x'] = 'x', ['y'] = 'y',   ['z'] = 'z',
};

static bool is_token(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (token_lower[(unsigned char)text[i]] == 0)
            return false;
    return bytes > 0;
}

/* version: "HTTP/1.1" at the end of the request line. */
static bool version(struct reader *r, const char *text, size_t bytes)
{
    if (bytes != sizeof "HTTP/1.1" - 1 || memcmp(text, "HTTP/", 5) != 0 || text[6] != '.' ||
        text[5] < '0' || text[5] > '9' || text[7] < '0' || text[7] > '9')
        return refuse(r, 400, "the request line does not end with an HTTP version");
    if (text[5] != '1' || text[7] > '1')
        return refuse(r, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    r->out->http10 = text[7] == '0';
    return true;
}

/* request_line: fills in the method and where the target is. */
static bool request_line(struct reader *r, struct http_token *target, size_t *line_bytes)
{
    const char *line = r->head;
    const char *end = memchr(line, '\r', r->bytes);
    const char *first = end != NULL ? memchr(line, ' ', (size_t)(end - line)) : NULL;
    const char *second = first != NULL ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (second == NULL || !is_token(line, (size_t)(first - line)))
        return refuse(r, 400, "the request line is not 'METHOD /path HTTP/1.1'");
    size_t bytes = (size_t)(second - first - 1);
    if (bytes > HTTP_URL_BYTES_MAX)
        return refuse(r, 414, "the request target is too long");
    if (first[1] != '/')
        return refuse(r, 400, "the request target does not begin with a slash");
    if (memchr(first + 1, '#', bytes) != NULL)
        return refuse(r, 400, "there is a '#' in the request target");
    if (!version(r, second + 1, (size_t)(end - second - 1)))
        return false;
    r->out->method = known_method(line, (size_t)(first - line));
    if (r->out->method == NULL)
        return refuse(r, 501, "the method is not known here");
    *target = (struct http_token){.at = (uint16_t)(first + 1 - line), .bytes = (uint16_t)bytes};
    *line_bytes = (size_t)(end - line) + 2;
    return true;
}

/* cut_target: path and query become texts. */
static void cut_target(struct reader *r, struct http_token target)
{
    char *path = r->head + target.at;
    char *question = memchr(path, '?', target.bytes);
    path[target.bytes] = '\0';
    if (question != NULL)
        *question = '\0';
    r->out->path = path;
    r->out->query = question != NULL ? question + 1 : path + target.bytes;
}

/* ---- headers with a meaning for the transport ---- */

enum known {
    OTHER,
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    EXPECT,
    CONNECTION,
    SINGLE, /* and all behind it: of no meaning here, but must not be there twice */
};

static const struct {
    const char *name;
    uint8_t bytes;
    uint8_t known;
} names[] = {
#define NAME(text, known)                                                                          \
    {                                                                                              \
        text, sizeof text - 1, known                                                               \
    }
    NAME("host", HOST),
    NAME("content-length", CONTENT_LENGTH),
    NAME("transfer-encoding", TRANSFER_ENCODING),
    NAME("expect", EXPECT),
    NAME("connection", CONNECTION),
    NAME("content-type", SINGLE),
    NAME("authorization", SINGLE + 1),
    NAME("x-api-key", SINGLE + 2),
    NAME("idempotency-key", SINGLE + 3),
    NAME("origin", SINGLE + 4),
    NAME("last-event-id", SINGLE + 5),
    NAME("sec-fetch-site", SINGLE + 6),
#undef NAME
};

static unsigned known_name(const char *name, size_t bytes)
{
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (names[i].bytes == bytes && memcmp(names[i].name, name, bytes) == 0)
            return names[i].known;
    return OTHER;
}

static bool is_port(const char *text)
{
    size_t bytes = strlen(text);
    unsigned port = 0;
    for (size_t i = 0; i < bytes && i < 6; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return bytes > 0 && bytes < 6 && port <= UINT16_MAX;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* name_end: behind the last character that can be in the name of a host. */
static const char *name_end(const char *text)
{
    while (is_alnum(*text) || *text == '.' || *text == '-' || *text == '_')
        text++;
    return text;
}

/* host: a name or an address, and maybe a port: "box.lan", "10.0.0.5:7117", "[::1]:7117". */
static bool host(struct reader *r, const char *value)
{
    const char *end = value;
    bool fine = false;
    if (value[0] == '[') {
        size_t bytes = strspn(value + 1, "0123456789abcdefABCDEF:.");
        end = value + 1 + bytes;
        fine = bytes > 0 && *end++ == ']';
    } else {
        end = name_end(value);
        fine = end > value;
    }
    if (!fine || (*end != '\0' && (*end != ':' || !is_port(end + 1))))
        return refuse(r, 400, "the Host header is not a name or an address");
    r->out->host = value;
    return true;
}

static bool content_length(struct reader *r, const char *value)
{
    size_t bytes = strlen(value);
    if (bytes == 0 || bytes > LENGTH_DIGITS_MAX || (value[0] == '0' && bytes > 1))
        return refuse(r, 400, "the Content-Length header is not a number");
    for (size_t i = 0; i < bytes; i++) {
        if (value[i] < '0' || value[i] > '9')
            return refuse(r, 400, "the Content-Length header is not a number");
        r->length = r->length * 10 + (uint64_t)(value[i] - '0');
    }
    return true;
}

static bool transfer_encoding(struct reader *r, const char *value)
{
    if (strcmp(value, "chunked") != 0)
        return refuse(r, 400, "the Transfer-Encoding header is not 'chunked'");
    if (r->out->http10)
        return refuse(r, 400, "HTTP/1.0 has no Transfer-Encoding");
    r->plan->chunked = true;
    return true;
}

static bool expect(struct reader *r, const char *value)
{
    if (strcasecmp(value, "100-continue") != 0)
        return refuse(r, 417, "the Expect header is not '100-continue'");
    /* a caller of HTTP/1.0 would take our "100 Continue" for the answer */
    r->plan->expects_continue = !r->out->http10;
    return true;
}

/* connection: the words of a list, of which two concern us. */
static void connection(struct reader *r, const char *value)
{
    while (*value != '\0') {
        value += strspn(value, ", ");
        size_t bytes = strcspn(value, ", ");
        if (bytes == 5 && strncasecmp(value, "close", 5) == 0)
            r->close = true;
        if (bytes == 10 && strncasecmp(value, "keep-alive", 10) == 0)
            r->keep_alive = true;
        value += bytes;
    }
}

/* meaning: takes notice of one header. `plain`: no white space around it but one blank. */
static bool meaning(struct reader *r, const struct http_header *h, size_t name_bytes, bool plain)
{
    unsigned known = known_name(h->name, name_bytes);
    if (known == OTHER)
        return true;
    if (known != CONNECTION && known != EXPECT && (r->seen & 1u << known) != 0)
        return refuse(r, 400, "a header that may be there once is there twice");
    r->seen |= 1u << known;
    if ((known == CONTENT_LENGTH || known == TRANSFER_ENCODING) && !plain)
        return refuse(r, 400, "there is too much white space around the length of the body");
    switch (known) {
    case HOST: return host(r, h->value);
    case CONTENT_LENGTH: return content_length(r, h->value);
    case TRANSFER_ENCODING: return transfer_encoding(r, h->value);
    case EXPECT: return expect(r, h->value);
    case CONNECTION: connection(r, h->value); return true;
    default: return true;
    }
}

/* ---- all headers ---- */

/*
 * cut_header: makes texts of the header that begins at `line`; returns where the next one begins,
 * 0 when the library saw another header than is there.
 */
static size_t cut_header(struct reader *r, const struct http_field *f, size_t line,
                         struct http_header *h, bool *plain)
{
    char *name = r->head + line;
    size_t colon = f->name.bytes;
    if (f->name.at != line || name[colon] != ':')
        return 0;
    for (size_t i = 0; i < colon; i++) {
        unsigned char lower = token_lower[(unsigned char)name[i]];
        if (lower == 0)
            return 0;
        name[i] = (char)lower;
    }
    char *value = name + colon + 1;
    while (*value == ' ')
        value++;
    size_t blanks = (size_t)(value - name) - colon - 1;
    char *end = memchr(value, '\r', (size_t)(r->head + r->bytes - value));
    size_t line_end = (size_t)(end - r->head);
    while (end > value && end[-1] == ' ')
        end--;
    /* the library may or may not have cut off the blanks behind the value */
    size_t value_end = (size_t)f->value.at + f->value.bytes;
    if (end > value &&
        (r->head + f->value.at != value || r->head + value_end < end || value_end > line_end))
        return 0;
    *plain = blanks <= 1 && end == r->head + line_end;
    name[colon] = '\0';
    *end = '\0';
    *h = (struct http_header){.name = name, .value = value};
    return colon > 0 ? line_end + 2 : 0;
}

static bool cut_headers(struct reader *r, const struct http_field *fields, size_t count,
                        size_t line, struct http_header *headers)
{
    for (size_t i = 0; i < count; i++) {
        bool plain = false;
        line = cut_header(r, &fields[i], line, &headers[i], &plain);
        if (line == 0)
            return refuse(r, 400, "a header is not 'Name: value'");
        if (!meaning(r, &headers[i], fields[i].name.bytes, plain))
            return false;
    }
    if (line + 2 != r->bytes)
        return refuse(r, 400, "a header is not 'Name: value'");
    r->out->headers = headers;
    r->out->header_count = count;
    return true;
}

/* settle: what the headers say together. */
static bool settle(struct reader *r, const struct http_parsed *parsed)
{
    bool has_length = (r->seen & 1u << CONTENT_LENGTH) != 0;
    if (has_length && r->plan->chunked)
        return refuse(r, 400, "there are both a Content-Length and a Transfer-Encoding");
    if (r->out->host == NULL && !r->out->http10)
        return refuse(r, 400, "the Host header is missing");
    if (parsed->chunked != r->plan->chunked || parsed->length != r->length ||
        parsed->minor != !r->out->http10)
        return refuse(r, 400, "the headers can be read in more than one way");
    if (r->length > BODY_BYTES_MAX)
        return refuse(r, 413, "the body is too large");
    r->plan->length = (size_t)r->length;
    r->out->keep_alive = !r->close && (r->keep_alive || !r->out->http10);
    return true;
}

bool http_head_read(char *head, size_t bytes, struct http_header *headers, size_t header_count,
                    struct http_request *out, struct http_plan *plan, struct http_refusal *why)
{
    struct reader r = {.head = head, .bytes = bytes, .out = out, .plan = plan, .why = why};
    struct http_field fields[HTTP_HEADERS_MAX];
    struct http_parsed parsed;
    struct http_token target = {0};
    size_t line_bytes = 0;
    *out = (struct http_request){.body = ""};
    *plan = (struct http_plan){0};
    if (!request_line(&r, &target, &line_bytes))
        return false;
    if (!http_parse(head, bytes, fields, header_count, &parsed) || parsed.major != 1 ||
        parsed.target.at != target.at || parsed.target.bytes != target.bytes)
        return refuse(&r, 400, "the head is not HTTP");
    cut_target(&r, target);
    return cut_headers(&r, fields, parsed.count, line_bytes, headers) && settle(&r, &parsed);
}
