/* SPDX-License-Identifier: MIT */
/*
 * openapi_refusals.c: refusals and failures in the description, by HTTP code.
 *
 * What any operation may answer is one shared response per HTTP code, with a sentence for each code
 * of ours; operations refer to it. Where an operation has refusals of its own under that HTTP code,
 * all of them are named there, and the schema Code has the sentences.
 */
#include "openapi_parts.h"

/* What any operation may answer, in the order of their codes. */
static const struct common {
    dibs_status status;
    bool writes_only;
} common[] = {
    {DIBS_INVALID_REQUEST, false},
    {DIBS_UNAUTHORIZED, false},
    {DIBS_FORBIDDEN, false},
    {DIBS_PAYLOAD_TOO_LARGE, true},
    {DIBS_UNSUPPORTED_MEDIA_TYPE, true},
    {DIBS_MISDIRECTED_REQUEST, false},
    {DIBS_IDEMPOTENCY_KEY_REUSED, true},
    {DIBS_RATE_LIMITED, false},
    {DIBS_INTERNAL, false},
    {DIBS_STORE_CORRUPT, false},
    {DIBS_OUT_OF_MEMORY, false},
    {DIBS_STORE_UNAVAILABLE, false},
    {DIBS_STORE_BUSY, false},
    {DIBS_STORE_FULL, true},
};

static void key_number(struct jw *w, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    jw_key(w, text);
}

/* name_own: "`CODE`, `CODE`" of the operation's own with this HTTP code. */
static void name_own(struct buf *text, int http, const dibs_status *own)
{
    for (size_t i = 0; own[i] != DIBS_OK; i++) {
        if (dibs_status_http(own[i]) == http)
            buf_printf(text, "%s`%s`", text->len > 0 ? ", " : "", dibs_status_name(own[i]));
    }
}

static void name_common(struct buf *text, int http, bool writes, bool with_sentence)
{
    for (size_t i = 0; i < COUNT_OF(common); i++) {
        dibs_status s = common[i].status;
        if (dibs_status_http(s) != http || (common[i].writes_only && !writes))
            continue;
        buf_printf(text, "%s`%s`", text->len > 0 ? ", " : "", dibs_status_name(s));
        if (with_sentence)
            buf_printf(text, ": %s", dibs_status_sentence(s));
    }
}

/* describe: the codes that stand behind an HTTP code; `own` NULL: of the shared response. */
static void describe(struct jw *w, int http, bool writes, const dibs_status *own)
{
    struct buf text;
    buf_init(&text, 4096);
    if (own != NULL)
        name_own(&text, http, own);
    name_common(&text, http, writes, own == NULL);
    if (buf_ok(&text))
        jw_ktext(w, "description", text.data);
    else
        w->out->no_memory = true;
    buf_release(&text);
}

/* refusal_members: the members of a response that is a refusal. */
static void refusal_members(struct jw *w, int http, bool writes, const dibs_status *own)
{
    describe(w, http, writes, own);
    if (http == 429 || http == 503) {
        jw_kobject(w, "headers");
        jw_kobject(w, "Retry-After");
        jw_ktext(w, "description", "Seconds after which it is worth while to ask again");
        jw_kobject(w, "schema");
        jw_ktext(w, "type", "integer");
        jw_object_end(w);
        jw_object_end(w);
        jw_object_end(w);
    }
    jw_kobject(w, "content");
    jw_kobject(w, "application/json");
    jw_kobject(w, "schema");
    jw_ktext(w, "$ref", "#/components/schemas/Refusal");
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

static bool has_own(const dibs_status *own, int http)
{
    for (size_t i = 0; own[i] != DIBS_OK; i++) {
        if (dibs_status_http(own[i]) == http)
            return true;
    }
    return false;
}

static bool has_common(int http, bool writes)
{
    for (size_t i = 0; i < COUNT_OF(common); i++) {
        if (dibs_status_http(common[i].status) == http && (writes || !common[i].writes_only))
            return true;
    }
    return false;
}

void openapi_refer_to_refusal(struct jw *w, int http)
{
    char target[64];
    snprintf(target, sizeof target, "#/components/responses/%d", http);
    key_number(w, http);
    jw_object(w);
    jw_ktext(w, "$ref", target);
    jw_object_end(w);
}

/* openapi_refusals: a response for every HTTP code that the operation may refuse with. */
void openapi_refusals(struct jw *w, bool writes, const dibs_status *own)
{
    for (int http = 400; http < 600; http++) {
        if (has_own(own, http)) {
            key_number(w, http);
            jw_object(w);
            refusal_members(w, http, writes, own);
            jw_object_end(w);
        } else if (has_common(http, writes)) {
            openapi_refer_to_refusal(w, http);
        }
    }
}

void openapi_shared_refusals(struct jw *w)
{
    jw_kobject(w, "responses");
    for (int http = 400; http < 600; http++) {
        char name[32];
        if (!has_common(http, true))
            continue;
        snprintf(name, sizeof name, "%d", http);
        jw_kobject(w, name);
        refusal_members(w, http, true, NULL);
        jw_object_end(w);
    }
    jw_object_end(w);
}

void openapi_codes(struct jw *w, const char *key)
{
    struct buf text;
    buf_init(&text, 16384);
    buf_text(&text, "Every refusal and failure by name.");
#define STATUS(number, name, http, exit, kind, sentence)                                           \
    buf_text(&text, "\n\n- `" #name "` (" #http "): " sentence);
#include "base/status.def"
#undef STATUS
    if (buf_ok(&text))
        jw_ktext(w, key, text.data);
    else
        w->out->no_memory = true;
    buf_release(&text);
}
