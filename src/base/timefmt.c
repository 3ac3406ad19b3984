/* SPDX-License-Identifier: MIT */
/*
 * timefmt.c: ISO 8601 in UTC, both ways, by arithmetic alone.
 *
 * The calendar repeats every 400 years (an "era" of 146,097 days). Years are counted from March, so
 * that the leap day is the last day of a year and the months before it have fixed lengths: day of
 * the year = (153 * month + 2) / 5. No libc: its calendar functions know time zones, locales and
 * hidden state.
 *
 *   1. time_from_text(time_to_text(t)) == t for every t in the years 0001 to 9999.
 *   2. A text that is no existing instant (February 30th, 25:00) is refused, never rounded to one
 *      that is.
 *   3. A clock time without a zone is refused: it would be a guess.
 *
 * Leap seconds do not exist here, as they do not in the kernel's clock.
 */
#include "timefmt.h"

#define DAY_MS INT64_C(86400000)
#define YEAR_1_MS INT64_C(-62135596800000)    /* 0001-01-01T00:00:00.000Z */
#define YEAR_9999_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

struct date {
    int year, month, day;
};

/* days_of: days from 1970-01-01 to the date. */
static int64_t days_of(struct date d)
{
    int year = d.month <= 2 ? d.year - 1 : d.year; /* >= 0 for the years from 1 on */
    int month = d.month <= 2 ? d.month + 9 : d.month - 3;
    int era = year / 400, year_of_era = year % 400;
    int day_of_year = (153 * month + 2) / 5 + d.day - 1;
    int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (int64_t)era * 146097 + day_of_era - 719468;
}

/* date_of: the reverse of days_of. */
static struct date date_of(int64_t days)
{
    int since = (int)(days + 719468); /* since 0000-03-01; >= 0 after clamping */
    int era = since / 146097, day_of_era = since % 146097;
    int year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month = (5 * day_of_year + 2) / 153;
    struct date d = {.year = era * 400 + year_of_era,
                     .day = day_of_year - (153 * month + 2) / 5 + 1};
    d.month = month < 10 ? month + 3 : month - 9;
    if (d.month <= 2)
        d.year++;
    return d;
}

/* put: two digits, and what stands behind them. */
static char *put(char *out, int value, char after)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
    out[2] = after;
    return out + 3;
}

void time_to_text(int64_t ms, char out[TIME_TEXT_BYTES])
{
    ms = ms < YEAR_1_MS ? YEAR_1_MS : ms > YEAR_9999_MS ? YEAR_9999_MS : ms;
    int64_t days = ms / DAY_MS - (ms % DAY_MS < 0);
    int rest = (int)(ms - days * DAY_MS);
    struct date d = date_of(days);
    out = put(out, d.year / 100, '\0') - 1; /* the second half of the year takes its place */
    out = put(out, d.year % 100, '-');
    out = put(out, d.month, '-');
    out = put(out, d.day, 'T');
    out = put(out, rest / 3600000, ':');
    out = put(out, rest / 60000 % 60, ':');
    out = put(out, rest / 1000 % 60, '.');
    *out++ = (char)('0' + rest / 100 % 10);
    out = put(out, rest % 100, 'Z');
    *out = '\0';
}

/* take: a number of exactly `width` digits between least and most at *text, which is moved
 * behind it. */
static bool take(const char **text, int width, int least, int most, int *out)
{
    int value = 0;
    for (int i = 0; i < width; i++) {
        char c = (*text)[i];
        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    if (value < least || value > most)
        return false;
    *text += width;
    *out = value;
    return true;
}

static bool take_char(const char **text, char c)
{
    if (**text != c)
        return false;
    (*text)++;
    return true;
}

static bool take_date(const char **text, int64_t *out_days)
{
    struct date d = {0};
    if (!take(text, 4, 1, 9999, &d.year) || !take_char(text, '-') ||
        !take(text, 2, 1, 12, &d.month) || !take_char(text, '-') || !take(text, 2, 1, 31, &d.day))
        return false;
    int64_t days = days_of(d);
    struct date same = date_of(days);
    if (same.day != d.day) /* June 31st has become July 1st */
        return false;
    *out_days = days;
    return true;
}

/* take_fraction: nothing, or a point and 1 to 9 digits, of which the first three count. */
static bool take_fraction(const char **text, int *out_ms)
{
    int ms = 0, count = 0;
    *out_ms = 0;
    if (!take_char(text, '.'))
        return true;
    for (; **text >= '0' && **text <= '9'; (*text)++, count++) {
        if (count < 3)
            ms = ms * 10 + (**text - '0');
    }
    for (int i = count; i < 3; i++)
        ms *= 10;
    *out_ms = ms;
    return count >= 1 && count <= 9;
}

static bool take_zone(const char **text, int *out_minutes)
{
    int hours = 0, minutes = 0;
    *out_minutes = 0;
    if (take_char(text, 'Z'))
        return true;
    int sign = **text == '-' ? -1 : 1;
    if (!take_char(text, '+') && !take_char(text, '-'))
        return false;
    if (!take(text, 2, 0, 23, &hours) || !take_char(text, ':') || !take(text, 2, 0, 59, &minutes))
        return false;
    *out_minutes = sign * (hours * 60 + minutes);
    return true;
}

static bool take_clock(const char **text, int64_t *out_ms)
{
    int hour = 0, minute = 0, second = 0, ms = 0, zone = 0;
    if (!take_char(text, 'T') || !take(text, 2, 0, 23, &hour) || !take_char(text, ':') ||
        !take(text, 2, 0, 59, &minute) || !take_char(text, ':') || !take(text, 2, 0, 59, &second) ||
        !take_fraction(text, &ms) || !take_zone(text, &zone))
        return false;
    *out_ms = ((hour * 60 + minute - zone) * 60 + second) * INT64_C(1000) + ms;
    return true;
}

bool time_from_text(const char *text, int64_t *out_ms)
{
    int64_t days = 0, clock_ms = 0;
    if (text == NULL || !take_date(&text, &days))
        return false;
    if (*text != '\0' && !take_clock(&text, &clock_ms))
        return false;
    int64_t ms = days * DAY_MS + clock_ms;
    if (*text != '\0' || ms < YEAR_1_MS || ms > YEAR_9999_MS) /* a zone may lead out of the range */
        return false;
    *out_ms = ms;
    return true;
}
