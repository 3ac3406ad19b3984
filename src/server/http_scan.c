/* SPDX-License-Identifier: MIT */
/*
 * http_scan.c: finds the end of a head in the raw bytes, and refuses what has no place in one.
 *
 * Parsers forgive a lot here (a lone LF as the end of a line, lines that go on in the next), each
 * in its own way, which is what request smuggling lives on. So before any parser sees the head:
 *
 *   1. A line ends with CR LF; neither is anywhere else. No line begins with a blank.
 *   2. No other control character, tabs included; nothing above 0x7e in the request line.
 *   3. At most HTTP_HEAD_BYTES_MAX bytes and HTTP_HEADERS_MAX headers, and a request line no longer
 *      than the longest target allows.
 *   4. What is decided depends on the bytes alone, never on how they were cut into pieces, and no
 *      byte is looked at twice.
 */
#include "http_head.h"

enum place { LINE_BEGINS, IN_LINE, AFTER_CR, AFTER_LAST_CR };

/* A request line with the longest method, target and version we take, and its CR. */
#define LINE_BYTES_MAX (sizeof "OPTIONS  HTTP/1.1\r" - 1 + HTTP_URL_BYTES_MAX)

static bool refuse(struct http_refusal *why, int status, const char *text)
{
    *why = (struct http_refusal){.status = status, .text = text};
    return false;
}

#define EACH_BYTE(c) (UINT64_MAX / 0xff * (c))

/*
 * eight_plain: the next eight bytes are all ASCII and none is a control character. Said in one go:
 * a subtraction borrows from the top bit of the first byte that is below what is subtracted.
 */
static bool eight_plain(const char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    uint64_t del = word ^ EACH_BYTE(0x7f);
    uint64_t found = word | (word - EACH_BYTE(0x20)) | (del - EACH_BYTE(0x01));
    return (found & EACH_BYTE(0x80)) == 0;
}

/* plain_bytes: how many bytes at the beginning can be inside a line. */
static size_t plain_bytes(const char *bytes, size_t count, bool ascii_only)
{
    const unsigned highest = ascii_only ? 0x7e : 0xff;
    size_t n = 0;
    while (n + 8 <= count && eight_plain(bytes + n))
        n += 8;
    for (; n < count; n++) {
        unsigned c = (unsigned char)bytes[n];
        if (c < 0x20 || c == 0x7f || c > highest)
            break;
    }
    return n;
}

/* enough: there is room for another byte at this place. */
static bool enough(const struct http_scan *s, struct http_refusal *why)
{
    if (s->lines == 0 && s->bytes > LINE_BYTES_MAX)
        return refuse(why, 414, "the request target is too long");
    if (s->bytes > HTTP_HEAD_BYTES_MAX)
        return refuse(why, 431, "the headers are too large");
    return true;
}

static bool begin_line(struct http_scan *s, char c, struct http_refusal *why)
{
    if (c == ' ')
        return refuse(why, 400, "a line of the head begins with a blank");
    if (c == '\r') {
        if (s->lines == 0)
            return refuse(why, 400, "there is no request line");
        s->place = AFTER_LAST_CR;
        s->bytes++;
        return enough(s, why);
    }
    if (s->lines > HTTP_HEADERS_MAX)
        return refuse(why, 431, "there are too many headers");
    s->place = IN_LINE;
    return true;
}

/* end_line: the byte that ended a run of plain ones. */
static bool end_line(struct http_scan *s, char c, struct http_refusal *why)
{
    if (c == '\n')
        return refuse(why, 400, "a line of the head ends without a carriage return");
    if (c != '\r')
        return refuse(why, 400, "there is a control character or worse in the head");
    s->place = AFTER_CR;
    s->bytes++;
    return true;
}

static bool take_lf(struct http_scan *s, char c, struct http_refusal *why)
{
    if (c != '\n')
        return refuse(why, 400, "there is a carriage return within a line of the head");
    s->lines++;
    s->bytes++;
    s->place = LINE_BEGINS;
    return true;
}

/* in_line: takes a run of plain bytes, and the CR behind it. */
static size_t in_line(struct http_scan *s, const char *bytes, size_t count,
                      struct http_refusal *why)
{
    /* one byte beyond the limits is enough to know that they are passed */
    const size_t most = s->lines == 0 ? LINE_BYTES_MAX : HTTP_HEAD_BYTES_MAX;
    const size_t room = most + 1 - s->bytes;
    size_t n = plain_bytes(bytes, count < room ? count : room, s->lines == 0);
    s->bytes += (uint32_t)n;
    if (!enough(s, why) || n == count)
        return n;
    return end_line(s, bytes[n], why) && enough(s, why) ? n + 1 : n;
}

size_t http_scan(struct http_scan *s, const char *bytes, size_t count, bool *done,
                 struct http_refusal *why)
{
    size_t at = 0;
    *done = false;
    while (at < count && why->status == 0) {
        switch ((enum place)s->place) {
        case LINE_BEGINS:
            if (begin_line(s, bytes[at], why) && s->place == AFTER_LAST_CR)
                at++;
            break;
        case IN_LINE: at += in_line(s, bytes + at, count - at, why); break;
        case AFTER_CR:
            if (take_lf(s, bytes[at], why) && enough(s, why))
                at++;
            break;
        case AFTER_LAST_CR: *done = take_lf(s, bytes[at], why) && enough(s, why); return at + 1;
        }
    }
    return at;
}
